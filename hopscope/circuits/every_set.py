"""Every set of up to so many rows, live, on a few sequences: which of them are not hopeless.

Whether a circuit is minimal, and whether it is alone, is known for sure only when all sets have been tried. There are
thousands, most of them far from the threshold. So they go through the model together, layer by layer: sets that keep
the same rows of the layers below share one copy of the sequences, and part where they differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.changes import Pattern, nulls
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.units import Row
from hopscope.interventions.engine import PATTERN
from hopscope.models.base_sparing import Blind

Rows = frozenset[Row]
State = tuple[Row, ...]  # rows that are kept so far


@dataclass(frozen=True)
class EverySet:
    """All sets of some rows, all else null.

    Attributes:
        evaluator: a model that can begin at any layer, on few sequences.
        rows: of which sets are made.
        size: of the largest sets.
        null: of rows that are not kept, but for those that are
        identity: of these it is oneself.
    """

    evaluator: Evaluator
    rows: Sequence[Row]
    size: int
    null: str
    identity: Rows

    @property
    def possible(self) -> bool:
        """Whether sets can share passes."""
        return bool(self.evaluator.model.starts_at_layers) and self.null != "resample"

    def sets(self) -> list[Rows]:
        """All of them, of few rows first."""
        return [frozenset(rows) for n in range(self.size + 1) for rows in itertools.combinations(self.rows, n)]

    def work(self) -> float:
        """Multiplications, about: each weight of a layer once for every position and every set that is apart there."""
        below = itertools.accumulate(len(self.in_layer(layer)) for layer in self.layers)
        apart = sum(math.comb(n, k) for n in below for k in range(self.size + 1))
        return apart * self.per_sequence / len(self.layers) * len(self.evaluator.batch)

    @property
    def per_sequence(self) -> float:
        """Multiplications of a whole pass over one sequence, about."""
        weights = sum(weight.numel() for weight in self.evaluator.model.parameters())
        return max(1, weights) * self.evaluator.batch.inputs.shape[1]

    @torch.no_grad()
    def below(self, bound: float) -> list[Rows]:
        """Those that are below a bound in at least one of the sequences."""
        batch, found = self.evaluator.batch, []
        for states, outputs in self.descend(0, batch.inputs[None], [()]):
            losses = self.evaluator.losses_of_copies(outputs)
            near = ~(losses.min(1).values >= bound)  # what is not a number is left to others
            found += [frozenset(states[i]) for i in near.nonzero()[:, 0].tolist()]
        return found

    def descend(self, layer: int, streams: Tensor, states: list[State]) -> Iterator[tuple[list[State], Tensor]]:
        """From the streams of some sets before a layer to the answers of all that grow from them."""
        if layer == len(self.layers):
            yield states, streams
            return
        grown = [(place, here) for place, state in enumerate(states) for here in self.choices(layer, len(state))]
        grown.sort(key=lambda one: bool(one[1]))  # those that keep nothing here need not compute any pattern
        per_tile = max(1, self.evaluator.tile // len(self.evaluator.batch))
        idle = sum(not here for _, here in grown)
        for begin, end in tiles(idle, len(grown), per_tile):
            some = grown[begin:end]
            copies = streams[torch.tensor([place for place, _ in some], device=streams.device)]
            later = self.run(layer, copies, [here for _, here in some])
            yield from self.descend(layer + 1, later, [states[place] + here for place, here in some])

    def choices(self, layer: int, kept: int) -> list[State]:
        """What may be kept of a layer by a set that has so many rows already."""
        here = self.in_layer(layer)
        return [rows for n in range(self.size - kept + 1) for rows in itertools.combinations(here, n)]

    def run(self, layer: int, streams: Float[Tensor, "copy batch ..."], kept: Sequence[State]) -> Tensor:
        """One layer for some copies of the sequences, each with rows of its own; after the last one the answers."""
        n = len(kept)
        self.evaluator.count(n / len(self.layers))
        new = lambda actual: self.pattern(layer, actual.unflatten(0, (n, -1)), kept).flatten(0, 1)  # noqa: E731
        replace = {f"blocks.{layer}.{PATTERN}": new if any(kept) else Blind(new)}
        outputs, _ = self.evaluator.through(streams.flatten(0, 1), replace, layer, layer + 1)
        return outputs.unflatten(0, (n, -1))

    def pattern(self, layer: int, actual: Float[Tensor, "copy batch head query key"], kept: Sequence[State]) -> Pattern:
        """A layer's patterns, null but for what each copy keeps."""
        ground = self.evaluator.ground
        nothing = nulls(self.null, self.identity, layer, actual[0], ground).expand_as(actual)
        if not any(kept):
            return nothing
        held = torch.zeros(actual.shape[:4], dtype=torch.bool, device=actual.device)
        for copy, rows in enumerate(kept):
            for row in rows:
                held[copy, :, row.head] |= ground.holders(row.query)
        return torch.where(held[..., None], actual, nothing)

    def in_layer(self, layer: int) -> list[Row]:
        return [row for row in self.rows if row.layer == layer]

    @property
    def layers(self) -> range:
        return self.evaluator.layers


def tiles(first: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Parts of at most so many, none of them across the first border."""
    for low, high in ((0, first), (first, end)):
        for begin in range(low, high, most):
            yield begin, min(begin + most, high)
