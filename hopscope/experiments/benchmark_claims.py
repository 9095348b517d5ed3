"""Claims on benchmarks, from tables whose rows have a value, the ends of its interval, and who was asked.

A sign test's row has its two one-sided probabilities in place of the ends (`hopscope.language.controlled`).
"""

from __future__ import annotations

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound, significant

#: Layouts that ask for an answer with no solved exercise before it, in words. A model without a chat template is asked
#: as plain text.
PLAINLY = {"chat": "in chat", "raw": "as plain text"}


def plainly(rows: DataFrame) -> tuple[DataFrame, str]:
    """The rows that were asked in such a layout, and how that is said."""
    some = rows[rows.layout.isin(list(PLAINLY))]
    return some, " or ".join(PLAINLY[layout] for layout in sorted(set(some.layout))) or PLAINLY["chat"]


def of(table: DataFrame, measure: str, **same: str) -> DataFrame:
    """The rows of a measure, with these values in other columns."""
    rows = table[table.measure == measure]
    for column, value in same.items():
        rows = rows[rows[column] == value]
    return rows


def series(rows: DataFrame, column: str) -> Series:
    """A column, as numbers."""
    return rows[column].astype(float)


def ends(rows: DataFrame) -> list[float]:
    """Both ends of every interval: a bound that all meet is met, and one that some meet is undecided."""
    return [*series(rows, "low"), *series(rows, "high")]


def tested(id: str, sentence: str, rows: DataFrame, what: str, section: str) -> Claim:
    """A sign test over `what` was asked, of every model; all must be met, so none is corrected for their number."""
    pairs = list(zip(series(rows, "low"), series(rows, "high"), strict=True))
    bounds = [significant(f"more {what} with more than with less", more, less) for more, less in pairs]
    return Evidence(rows, section).claim(
        id,
        sentence,
        series(rows, "value"),
        "difference of the means",
        also=bounds or [bound("difference", [])],
    )
