"""Losses as data that the page's engine can implement: squared errors, or cross-entropy of logits.

Tasks define their losses in code. A rule is used for a task only if it gives the same numbers on random outputs. So a
new task needs no entry here, and a task with another kind of loss is recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.tasks.base import NOT_ASKED, Batch, Task
from hopscope.tasks.base_regression import RegressionTask

TRIED = 8  # sequences on which a rule is compared with the task's own losses


@dataclass(frozen=True)
class Scoring:
    """A rule for losses and right answers.

    Attributes:
        kind: `vectors`, the mean squared error of one vector per hop, whose nearest candidate is the answer; `numbers`,
            that of real numbers, without candidates; `tokens`, the cross-entropy in nats.
        hops: names of the partial losses.
        width: dimensions of a vector, or logits of a set.
        shared: whether all hops use the same logits.
        unscored: targets whose answers count as neither right nor wrong.
        counted: whether right answers are counted; False if no choice of `unscored` gives the task's own count.
        total: the training loss: the mean over `hops` or over `answers`, or that of one hop, by its number.
        scale: factor of squared errors of numbers.
        right_below: the loss below which numbers count as right.
        by_place: whether each query is a hop of its own; otherwise every query has targets for every hop.
    """

    kind: Literal["vectors", "numbers", "tokens"]
    hops: tuple[str, ...]
    width: int
    shared: bool = False
    unscored: tuple[int, ...] = ()
    counted: bool = True
    total: Literal["hops", "answers"] | int = "hops"
    scale: float = 1.0
    right_below: float = 0.0
    by_place: bool = False

    def answers(
        self, outputs: Float[Tensor, "batch query output"], targets: Shaped[Tensor, "batch query target"]
    ) -> tuple[Float[Tensor, "batch query hop"], Bool[Tensor, "batch query hop"]]:
        """The loss of every answer, and whether there is a target for it."""
        if self.kind != "tokens":
            errors = self.scale * (outputs - targets).square().unflatten(-1, (-1, self.width)).mean(-1)
            if self.by_place:
                asked = torch.eye(errors.shape[1], dtype=torch.bool, device=errors.device).expand(len(errors), -1, -1)
                return errors * asked, asked
            return errors, torch.ones_like(errors, dtype=torch.bool)
        logits = self.logits(outputs)
        found = F.cross_entropy(logits.movedim(-1, 1), targets, ignore_index=NOT_ASKED, reduction="none")
        return found, targets != NOT_ASKED

    def logits(self, outputs: Float[Tensor, "batch query output"]) -> Float[Tensor, "batch query hop logit"]:
        """The logits of each hop."""
        sets = 1 if self.shared else len(self.hops)
        return outputs[..., : sets * self.width].unflatten(-1, (sets, self.width)).expand(-1, -1, len(self.hops), -1)

    def hop_losses(self, outputs: Tensor, targets: Tensor) -> Float[Tensor, "hop"]:
        """The partial losses."""
        losses, asked = self.answers(outputs, targets)
        return losses.sum((0, 1)) / asked.sum((0, 1))

    def loss(self, outputs: Tensor, targets: Tensor) -> Float[Tensor, ""]:
        """The training loss."""
        if self.total == "answers":
            losses, asked = self.answers(outputs, targets)
            return losses.sum() / asked.sum().clamp(min=1)
        hops = self.hop_losses(outputs, targets)
        return hops.mean() if self.total == "hops" else hops[self.total]

    def gives(self, batch: Batch, outputs: Tensor) -> bool:
        """Whether these are the task's own losses, on all sequences together and on each."""
        task, targets = batch.task, batch.targets
        some = [slice(None), *(slice(i, i + 1) for i in range(len(batch)))]
        return all(
            near(mine(outputs[rows], targets[rows]), own(outputs[rows], targets[rows]))
            for rows in some
            for mine, own in ((self.hop_losses, task.hop_losses), (self.loss, task.loss))
        )

    def scored(self, batch: Batch, outputs: Tensor) -> tuple[int, int]:
        """The number of scored answers, and of right ones among them; not for vectors."""
        targets = batch.targets
        if self.kind == "numbers":
            errors, asked = self.answers(outputs, targets)
            return int(asked.sum()), int((errors[asked] < self.right_below).sum())
        counted = targets != NOT_ASKED
        for token in self.unscored:
            counted &= targets != token
        return int(counted.sum()), int((counted & (self.logits(outputs).argmax(-1) == targets)).sum())


def scoring(task: Task) -> Scoring | None:
    """The rule of a task's losses; None if no rule gives them."""
    random = generator(0, "scoring")
    batch = task.sample(TRIED, random)
    queries = batch.targets.shape[1]
    outputs = torch.randn(TRIED, queries, task.d_output, generator=random)
    found = next((rule for rule in rules(task, batch) if rule.gives(batch, outputs)), None)
    return found and unscored(found, batch, outputs)


def rules(task: Task, batch: Batch) -> Iterator[Scoring]:
    """The rules that fit the shapes of a task, simplest first."""
    hops, n = task.hop_names, len(task.hop_names)
    totals: list[Any] = ["answers", "hops"] if n == 1 else ["hops", "answers", *range(n)]
    if batch.targets.is_floating_point():
        if isinstance(task, RegressionTask):
            by_place = n > 1 and n == batch.targets.shape[1]
            rule = Scoring("numbers", hops, task.d_output if by_place else task.d_output // n, by_place=by_place)
            rule = replace(rule, scale=task.scale, right_below=task.solved_below)
            yield from (replace(rule, total=total) for total in totals)
        elif batch.targets.shape[-1] == task.d_output and task.d_output % n == 0:
            yield from (Scoring("vectors", hops, task.d_output // n, total=total) for total in totals)
    elif batch.targets.shape[-1] == n:
        if task.d_output % n == 0 and int(batch.targets.max()) < task.d_output // n:
            yield from (Scoring("tokens", hops, task.d_output // n, total=total) for total in totals)
        yield from (Scoring("tokens", hops, task.d_output, shared=True, total=total) for total in totals)


def unscored(rule: Scoring, batch: Batch, outputs: Tensor) -> Scoring:
    """The rule with the targets that the task does not score; with `counted` False if there is no such choice."""
    if rule.kind == "vectors":
        return rule
    hits = batch.task.correct(outputs, batch)
    own = hits.numel(), int(hits.sum())
    kinds = [replace(rule, unscored=(token,)) for token in sorted(set(batch.targets.flatten().tolist()))]
    return next((one for one in [rule, *kinds] if one.scored(batch, outputs) == own), replace(rule, counted=False))


def near(one: Tensor, other: Tensor) -> bool:
    """Whether two results agree up to rounding; NaN equals NaN."""
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
