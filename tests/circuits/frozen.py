"""Attention held as it was: a further change of attention, which the search does not make, to test the evaluator by."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from hopscope.circuits.changes import Change, Pattern, RowPattern, idle, restricted, with_rows
from hopscope.circuits.units import Ground, Row, Unit, given_in, in_layer


@dataclass(frozen=True)
class Frozen(Change):
    """Units have the patterns that they have in the model as it is, whatever became of the stream; all else is null.

    Attributes:
        units: what is kept.
        whole: the model's patterns by layer, on the same sequences.
        null: of all else.
        rows: patterns for whole rows, which go before units.
    """

    units: frozenset[Unit]
    whole: Sequence[Pattern] = field(hash=False, compare=False, repr=False)
    null: str = "uniform"
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)

    def key(self, layer: int) -> Hashable:
        here = in_layer(layer, self.units), given_in(layer, self.rows)
        if any(here) or self.null == "resample":  # what is idle then has the given patterns, of another sequence
            return type(self), id(self.whole), self.null, *here
        return "idle", self.null

    def blind(self, layer: int) -> bool:
        return True

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        here = [unit for unit in self.units if unit.layer == layer]
        kept = restricted(self.whole[layer], here, idle(self.null, self.whole[layer], ground), ground)
        return with_rows(kept, self.rows, layer, ground)
