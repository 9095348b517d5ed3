"""A task made of the caller's inputs and targets, instead of sequences that are drawn.

Other tasks know their baselines by construction; here they are taken from the data. Chance is the loss of the best
constant answer to the given targets. By default an answer is right if it is the likeliest output or, for real-valued
targets, if its squared error is below half their variance. These choices are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope.circuits.exam import AVERAGES, TRIALS, Discovery, drawn_for
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.core.wording import one_line
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Problem
from hopscope.problem.relations import relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import NOT_ASKED, Batch, Task

LEAST = 256  # least number of rows
CHANCE = 4096  # approximate number of rows on which chance is measured
Measure = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Data:
    """The caller's data.

    Attributes:
        inputs: tokens (int, row position), or features (float, row position feature).
        targets: one row for each row of inputs, in any further shape.
        at: the position of the answer, or a slice of positions.
        loss: gives the mean loss over rows of outputs and targets, also for a single row.
        correct: gives a bool for each answer.
        roles: of all rows; None for the relations of `hopscope.problem.relations`.
        floor: the loss of a perfect model.
        best_accuracy: the share of right answers of a perfect model, 0–1.
    """

    inputs: Tensor
    targets: Tensor
    at: int | slice
    loss: Measure
    correct: Measure
    roles: Roles | None
    floor: float
    best_accuracy: float = 1.0


def slice_of(at: int | slice) -> slice:
    """The positions of answers as a slice."""
    return at if isinstance(at, slice) else slice(at, at + 1 or None)


def shaped(outputs: Tensor, at: int | slice) -> Tensor:
    """Outputs in the shape that the caller's loss takes, which has no dimension for a single position."""
    return outputs if isinstance(at, slice) else outputs[:, 0]


class Deck:
    """Deals the rows out: half for the search and half for reports, of which none is dealt twice.

    Rows of the search go to discovery, to selection, and to the joint test of circuits. The joint test gets its own
    rows first, and then once more those of discovery and selection. Mean ablation averages over all rows of the search.

    Args:
        n: number of rows.
        settings: numbers of rows in the search, and its seed.
        device: of the generators whose seeds identify a purpose.
    """

    def __init__(self, n: int, settings: Discovery, device: torch.device):
        order = torch.randperm(n, generator=generator(settings.seed, "given rows"), device="cpu")
        first = settings.discovery + settings.selection
        self.whole = {"search": order[: n // 2], "report": order[n // 2 :]}
        self.left = {"search": torch.cat([order[: n // 2], order[:first]]), "report": order[n // 2 :]}
        self.dealt: dict[tuple[int, int], Tensor] = {}
        reported = [purpose for trial in range(1, TRIALS + 1) for purpose in drawn_for(trial)]
        seed = lambda purpose: generator(settings.seed, f"circuit {purpose}", 0, device).initial_seed()  # noqa: E731
        self.reports, self.averages = set(map(seed, reported)), seed(AVERAGES)

    def deal(self, n: int, purpose: int) -> Tensor:
        """Up to n rows, always the same for one purpose (a seed). A pool that is used up is dealt from the start."""
        if purpose == self.averages:
            return self.whole["search"][:n]
        if (purpose, n) not in self.dealt:
            pool = "report" if purpose in self.reports else "search"
            left = self.left[pool] if len(self.left[pool]) else self.whole[pool]
            self.dealt[purpose, n], self.left[pool] = left[:n], left[n:]
        return self.dealt[purpose, n]


class Given(Task):
    """The caller's data as a task.

    Args:
        data: the caller's tensors and functions.
        outputs: of the model for some rows, (row, query, output). Their mean is a first guess of a constant answer.
        settings: of the search.
    """

    __eq__, __hash__ = object.__eq__, object.__hash__
    unsolved_advice = (
        "train it longer; if it is confident of answers that count as wrong, check those labels; if no model can be "
        "perfect, give floor= and best_accuracy="
    )
    option = "settings=Discovery({}=...)"
    hop_names = ("answer",)

    def __init__(self, data: Data, outputs: Tensor, settings: Discovery):
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "answer", outputs.new_zeros(outputs.shape[1:]))
        object.__setattr__(self, "middle", outputs.mean(0))
        object.__setattr__(self, "deck", Deck(len(data.inputs), settings, data.inputs.device))

    data: Data
    answer: Tensor
    middle: Tensor
    deck: Deck

    @classmethod
    def name(cls) -> str:
        return "given"

    @property
    def n_positions(self) -> int:
        return self.data.inputs.shape[1]

    @property
    def d_output(self) -> int:
        return self.answer.shape[-1]

    @property
    def query_positions(self) -> slice:
        return slice_of(self.data.at)

    @property
    def floor(self) -> float:  # type: ignore[override]
        return self.data.floor

    @property
    def best_accuracy(self) -> float:  # type: ignore[override]
        return self.data.best_accuracy

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        return {"row": self.deck.deal(n, generator.initial_seed()).to(self.data.inputs.device)}

    def has_further(self, n: int) -> bool:
        """Whether n rows for reports are left."""
        return len(self.deck.left["report"]) >= n

    @property
    def has_more_to_search(self) -> bool:
        return len(self.deck.left["search"]) > 0

    def inputs(self, draw: Draw) -> Tensor:
        return self.data.inputs[draw["row"]]

    def targets(self, draw: Draw) -> Tensor:
        """Targets in three dimensions, as in all tasks; the caller's functions get them in the given shape."""
        return self.data.targets[draw["row"]].reshape(len(draw["row"]), 1, -1)

    def restored(self, targets: Tensor) -> Tensor:
        """Targets in the shape in which the caller gave them."""
        return targets.reshape(len(targets), *self.data.targets.shape[1:])

    def roles(self, draw: Draw) -> Roles:
        roles = self.data.roles
        if roles is None:
            return relations(self.inputs(draw), self.query_positions)
        return Roles(roles.names, roles.chain[draw["row"]])

    def problem(self, draw: Draw, row: int) -> Problem:
        """Raises BadInput: the facts behind the tensors are unknown."""
        raise BadInput("the facts behind given tensors are unknown, so there is no problem to show")

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return {}

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.data.loss(shaped(outputs, self.data.at), self.restored(targets))

    def hop_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)[None]

    def correct(self, outputs: Tensor, batch: Batch) -> Tensor:
        return self.data.correct(shaped(outputs, self.data.at), self.restored(batch.targets)).flatten()[:, None]

    @property
    def baselines(self) -> dict[str, float]:
        """The loss of the best constant answer, and that of a perfect model."""
        return {"the best constant answer": self.constant, "solved": self.floor}

    @cached_property
    def constant(self) -> float:
        """The loss of the best constant answer, by L-BFGS from several starts.

        The starts are zero, the mean of the model's outputs, and the mean or the log frequencies of targets. The
        model's mean is a valid start if outputs are constrained, such as probabilities.

        Raises:
            BadInput: the loss fails on many rows together, or is finite for no start.
        """
        targets = self.data.targets[:: max(1, len(self.data.targets) // CHANCE)]
        expand = lambda one: one.expand(len(targets), *one.shape)  # noqa: E731
        loss = lambda one: self.loss(expand(one), targets)  # noqa: E731
        starts = [self.answer, self.middle, *typical(targets, shaped(self.answer[None], self.data.at)[0], self.answer)]
        try:
            with torch.no_grad():
                losses = [float(loss(start)) for start in starts]
        except Exception as error:  # the caller's function may raise anything
            raise BadInput(f"the loss fails on {len(targets)} rows together: {one_line(error)[:200]}") from None
        finite = {found: start for found, start in zip(losses, starts, strict=True) if math.isfinite(found)}
        if not finite:
            raise BadInput("no constant answer that was tried has a finite loss, so the chance level is unknown")
        return min(min(finite), *(descended(start, loss) for start in finite.values()))


def typical(targets: Tensor, like: Tensor, answer: Tensor) -> list[Tensor]:
    """The targets' mean, or their log frequencies, as a constant answer; empty if targets have neither shape.

    Args:
        targets: of some rows.
        like: outputs of a row in the shape that the caller's loss takes.
        answer: outputs of a row in the shape of tasks, (query, output).
    """
    n_classes = answer.shape[-1]
    if targets.is_floating_point() and targets.shape[1:] == like.shape:
        return [targets.mean(0).reshape(answer.shape).to(answer.dtype)]
    if classes(targets, like):
        counted = (targets != NOT_ASKED)[..., None]
        counts = (F.one_hot(targets.clamp(min=0).long(), n_classes) * counted).sum(0).to(answer.dtype)
        return [(counts + 1e-3).log().reshape(answer.shape)]
    return []


def classes(targets: Tensor, like: Tensor) -> bool:
    """Whether targets are indices of outputs, one for each query."""
    return (
        not targets.is_floating_point()
        and targets.shape[1:] == like.shape[:-1]
        and -1 < int(targets.clamp(min=0).max()) < like.shape[-1]
    )


def descended(start: Tensor, loss: Callable[[Tensor], Tensor]) -> float:
    """The loss after at most 40 iterations of L-BFGS; infinite if the loss cannot be differentiated."""
    answer = start.detach().clone().requires_grad_()
    optimizer = torch.optim.LBFGS([answer], max_iter=40, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        found = loss(answer)
        found.backward()  # type: ignore[no-untyped-call]
        return found

    try:
        with torch.enable_grad():
            optimizer.step(closure)  # type: ignore[no-untyped-call, arg-type]
            found = float(loss(answer).detach())
    except RuntimeError:
        return float("inf")
    return found if math.isfinite(found) else float("inf")
