"""Claims about benchmarks, from tables with a value, its interval's ends, and the layout and model that were asked.

The row of a sign test has two one-sided probabilities in place of the interval's ends (`hopscope.language.controlled`).
"""

from __future__ import annotations

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound, significant

#: Layouts that ask without a solved exercise before the question, in words. A model without a chat template is asked in
#: plain text.
PLAINLY = {"chat": "in chat", "raw": "as plain text"}


def plainly(rows: DataFrame) -> tuple[DataFrame, str]:
    """The rows whose layout is a key of `PLAINLY`, and these layouts in words."""
    some = rows[rows.layout.isin(list(PLAINLY))]
    return some, " or ".join(PLAINLY[layout] for layout in sorted(set(some.layout))) or PLAINLY["chat"]


def of(table: DataFrame, measure: str, **same: str) -> DataFrame:
    """The rows of a measure with these values in other columns."""
    rows = table[table.measure == measure]
    for column, value in same.items():
        rows = rows[rows[column] == value]
    return rows


def series(rows: DataFrame, column: str) -> Series:
    """A column as floats."""
    return rows[column].astype(float)


def ends(rows: DataFrame) -> list[float]:
    """Both ends of every interval: a bound that all of them meet is met, one that only some meet is undecided."""
    return [*series(rows, "low"), *series(rows, "high")]


def tested(id: str, sentence: str, rows: DataFrame, what: str, section: str) -> Claim:
    """A sign test over questions, for every model; all must be significant, so none is corrected for their number."""
    pairs = list(zip(series(rows, "low"), series(rows, "high"), strict=True))
    bounds = [significant(f"more {what} with more than with less", more, less) for more, less in pairs]
    return Evidence(rows, section).claim(
        id,
        sentence,
        series(rows, "value"),
        "difference of the means",
        also=bounds or [bound("difference", [], above=0)],
    )
