"""Every set of up to so many rows, live, on a few sequences: which of them are not hopeless.

Whether a circuit is minimal, and whether it is alone, is known for sure only when all sets have been tried. There are
thousands, most of them far from the threshold. Sets that keep the same rows of the layers below share one copy of the
sequences, and part where they differ (`hopscope.interventions.branches`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.circuits.changes import Kept
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.units import Row

Rows = frozenset[Row]
TOGETHER = 4096  # sets, whose answers are held at a time (ours)


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
        layers = self.evaluator.layers
        below = itertools.accumulate(sum(row.layer == layer for row in self.rows) for layer in layers)
        apart = sum(math.comb(n, k) for n in below for k in range(self.size + 1))
        return apart * self.per_sequence / len(layers) * len(self.evaluator.batch)

    @property
    def per_sequence(self) -> float:
        """Multiplications of a whole pass over one sequence, about."""
        weights = sum(weight.numel() for weight in self.evaluator.model.parameters())
        return max(1, weights) * self.evaluator.batch.inputs.shape[1]

    def below(self, bound: float) -> list[Rows]:
        """Those that are below a bound in at least one of the sequences."""
        sets, found = self.sets(), list[Rows]()
        for begin in range(0, len(sets), TOGETHER):
            some = sets[begin : begin + TOGETHER]
            losses = self.evaluator.sequence_losses([Kept(one, self.null, self.identity) for one in some])
            near = ~(losses.min(1).values >= bound)  # what is not a number is left to others
            found += itertools.compress(some, near.tolist())
        return found
