"""Claims about tables of quantities: each row has the run's kind, a quantity, a seed, a step, and the `value`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence


@dataclass(frozen=True)
class Quantities:
    """A table of quantities, and the section of the source that its claims are from.

    Attributes:
        table: with columns run, seed, kind, quantity, step, value.
        section: where the source says it, unless a claim names another section.
    """

    table: DataFrame
    section: str

    def of(self, kind: str, quantity: str) -> Series:
        """A quantity at the end of each run of a kind, by seed; NaN where it is unknown there."""
        return self.course(kind, quantity).drop_duplicates("seed", keep="last").set_index("seed").value.sort_index()

    def course(self, kind: str, quantity: str) -> DataFrame:
        """A quantity over training in all runs of a kind, sorted by step."""
        return self.table[(self.table.kind == kind) & (self.table.quantity == quantity)].sort_values("step")

    def claim(
        self,
        name: str,
        sentence: str,
        values: Any,
        what: str,
        kinds: tuple[str, ...],
        *,
        section: str = "",
        source: str = "ours",
        **more: Any,
    ) -> Claim:
        """A claim about the runs of some kinds; its number is the bounded statistic, or else the mean."""
        rows = self.table[self.table.kind.isin(kinds)]
        evidence = Evidence(rows, section or self.section, source, among=self.table)
        return evidence.claim(name, sentence, values, what, n=len(values), **{"number": more.get("of", "mean"), **more})
