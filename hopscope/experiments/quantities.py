"""Claims on tables of quantities: a row per run's kind, quantity, seed and step, with its `value`."""

from __future__ import annotations

from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence


def of(table: DataFrame, kind: str, quantity: str) -> Series:
    """A quantity at the end of each run of a kind, by seed."""
    rows = table[(table.kind == kind) & (table.quantity == quantity)]
    return rows.groupby("seed").value.last()


def about(
    name: str,
    sentence: str,
    values: Any,
    what: str,
    table: DataFrame,
    kinds: tuple[str, ...],
    *,
    section: str,
    source: str = "ours",
    **more: Any,
) -> Claim:
    """A claim about the runs of some kinds; its number is the statistic that is bound, or else the mean."""
    evidence = Evidence(table[table.kind.isin(kinds)], section, source, among=table)
    return evidence.claim(name, sentence, values, what, n=len(values), **{"number": more.get("of", "mean"), **more})
