"""Mean ablation: a circuit as computed, while every other head says at each position what it says there on average.

A null pattern can do a circuit's own work: a head that attends evenly is not missed where what is idle attends evenly,
and at position 0 of a causal model every pattern is the same. A head at its average does neither (mean ablation; Wang
et al., 2022). Averages have faults of their own: of two heads that do the same, one at its average may disturb the
other. So what is asked is whether heads that attend as a null does are missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property, partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.changes import Change, Pattern
from hopscope.circuits.evaluator import PATTERN, Evaluator
from hopscope.circuits.units import Row
from hopscope.interventions.patterns import NULLS
from hopscope.models.base import Replacement

OUTPUT = "attn.hook_z"
LIKE_NULL = 0.05  # of a head's attention at a position that is elsewhere than a null pattern's, on average (ours)
Head = tuple[int, int]


def has_averages(evaluator: Evaluator) -> bool:
    """Whether the model lets the outputs of single heads be replaced; patterns, all that circuits ask for, are not
    enough."""
    return {f"blocks.{layer}.{OUTPUT}" for layer in evaluator.layers} <= {*evaluator.model.activation_names}


class Averaged:
    """What every head says on average over some sequences, position by position."""

    def __init__(self, evaluator: Evaluator):
        self.evaluator = evaluator
        names = [f"blocks.{layer}.{OUTPUT}" for layer in evaluator.layers]
        sums: list[Tensor | float] = [0.0] * len(names)
        for part in evaluator.parts:
            with torch.no_grad():
                _, cache = part.model(part.batch.inputs, cache=names, at=part.batch.task.query_positions)
            part.count(1)
            sums = [total + cache[name].sum(0) for total, name in zip(sums, names, strict=True)]
        self.means = [torch.as_tensor(total) / len(evaluator.batch) for total in sums]

    def outputs(
        self, kept: Change, rows: Iterable[Row], nulls: Collection[Head] = ()
    ) -> Float[Tensor, "batch query output"]:
        """The model's answers with some rows under a change, and all others at their average.

        Args:
            kept: what becomes of patterns.
            rows: which say what follows from it.
            nulls: heads that do so, too, wherever they attend as a null does in the model as it is.
        """
        rows = frozenset(rows)
        return torch.cat([self.outputs_of(part, kept, rows, nulls) for part in self.evaluator.parts])

    @torch.no_grad()
    def outputs_of(
        self, part: Evaluator, kept: Change, rows: frozenset[Row], nulls: Collection[Head]
    ) -> Float[Tensor, "part query output"]:
        """The same on some of the sequences."""
        replace: dict[str, Replacement] = {}
        for layer in part.layers:
            live = self.live(part, layer, rows, nulls)
            replace[f"blocks.{layer}.{PATTERN}"] = partial(kept.pattern, layer, ground=part.ground)
            replace[f"blocks.{layer}.{OUTPUT}"] = partial(chosen, live, self.means[layer])
        part.count(1)
        found: Tensor = part.model(part.batch.inputs, replace=replace, at=part.batch.task.query_positions)
        return found

    def live(
        self, part: Evaluator, layer: int, rows: frozenset[Row], nulls: Collection[Head]
    ) -> Bool[Tensor, "part position head"]:
        """Where a layer's heads are not at their average."""
        shape = (*part.batch.inputs.shape[:2], part.model.architecture.n_heads)
        found = torch.zeros(shape, dtype=torch.bool, device=part.batch.inputs.device)
        for row in rows:
            if row.layer == layer:
                found[:, :, row.head] |= part.ground.holders(row.query)
        for head in (head for at, head in nulls if at == layer):
            found[:, :, head] |= self.like_null[layer][head]
        return found

    @cached_property
    def like_null(self) -> list[Bool[Tensor, "head position"]]:
        """By layer, where heads attend as a null does, on average over the sequences: evenly, or to themselves."""
        evaluator = self.evaluator

        def is_like(pattern: Pattern, kind: str) -> Tensor:
            common = torch.minimum(pattern, evaluator.ground.null(kind)).sum(-1)
            return (1 - common).mean(0) < LIKE_NULL

        return [torch.stack([is_like(pattern, kind) for kind in NULLS]).any(0) for pattern in evaluator.patterns]

    @property
    def heads(self) -> list[Head]:
        """The heads that attend as a null does somewhere."""
        found = [(layer, head) for layer, like in enumerate(self.like_null) for head in range(len(like))]
        return [(layer, head) for layer, head in found if bool(self.like_null[layer][head].any())]


def chosen(live: Bool[Tensor, "batch position head"], mean: Tensor, z: Tensor) -> Tensor:
    """What heads say where they are live, and their mean elsewhere."""
    return torch.where(live[..., None], z, mean)
