"""Values over runs that claims are about: their statistics, and the treatment of NaN and infinity.

NaN is an unknown value: number and spread leave it out, and it does not meet a bound on every value. An event that did
not happen while it was observed is censored: its time is `math.inf`, later than any number, and is compared as such.
`lags` takes differences of such times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

import numpy
import pandas
from numpy.typing import ArrayLike

from hopscope.core.intervals import interval_of_mean, wilson_of_mean

Statistic = Literal["lowest", "highest", "mean", "geometric mean", "median", "total", "share of"]
Values = Iterable[float] | float


def mean(values: Sequence[float]) -> float:
    """The mean; NaN if infinities of both signs are among the values."""
    return sum(values) / len(values)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values; 0 if one of them is 0."""
    return math.exp(mean([math.log(value) if value > 0 else -math.inf for value in values]))


#: Statistics by the words that precede the values' name. `share of` is for truth values.
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "lowest": min,
    "highest": max,
    "mean": mean,
    "geometric mean": geometric_mean,
    "median": median,
    "total": sum,
    "share of": mean,
}


def numbers(values: Values) -> list[float]:
    """Values as a list of floats; a single number becomes a list of one."""
    return [float(value) for value in values] if isinstance(values, Iterable) else [float(values)]


def known(values: Iterable[float]) -> list[float]:
    """All values except NaN."""
    return [value for value in values if not math.isnan(value)]


def interval_over_seeds(values: Values, rows: pandas.DataFrame) -> tuple[float, float] | None:
    """The 95 % interval of the mean of values, one per seed: by Student's t, or Wilson's for truth values.

    Args:
        values: a Series by seed, by run, or by the labels of some of the rows.
        rows: the runs behind them, with columns run and seed.

    Returns:
        None for values that are not one for each of at least three seeds, and for infinite or equal ones. Student's t
        does not know the range of the values, so an end can lie beyond it.
    """
    there = values.dropna() if isinstance(values, pandas.Series) else pandas.Series(dtype=float)
    each = numbers(there)
    if not 2 < len(each) == seeds_of(there.index, rows).nunique() or not all(map(math.isfinite, each)):
        return None
    if there.dtype == bool:
        return wilson_of_mean(each)
    return interval_of_mean(each) if min(each) < max(each) else None


def seeds_of(index: pandas.Index, rows: pandas.DataFrame) -> pandas.Index:
    """The seeds of values, by their index; empty if it has neither seeds, runs, nor labels of the rows."""
    if "seed" in index.names:
        return index.get_level_values("seed")
    if "run" in index.names:
        return index.get_level_values("run").map(dict(zip(rows.run, rows.seed, strict=True)).get)
    labels = index.name is None and rows.index.is_unique
    counted = index.equals(pandas.RangeIndex(len(index)))  # 0, 1, … are labels only by chance
    return index.map(rows.seed.to_dict()) if labels and not counted else pandas.Index([])


def lags(runs: Iterable[Iterable[float]]) -> list[float]:
    """Steps from each event to the next, over runs; each run gives the times of the same events, in the claimed order.

    NaN and ∞ mean never, −∞ before the first observation. An event that never happened gives no lag. An event that
    happened although the one before it never did contradicts the order, with a lag of −∞.
    """
    steps = []
    for run in runs:
        times = [math.inf if math.isnan(time) else float(time) for time in run]
        steps += [b - a for a, b in pairwise(times) if b < math.inf and not a == b == -math.inf]
    return steps


def ratios(times: pandas.Series, others: pandas.Series) -> pandas.Series:
    """The ratio of two times for every seed that has both; NaN if both are infinite."""
    first, second = times.align(others, join="inner")
    return first / second


def power_law(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """(a, b) of y = a x^b, by least squares of the logarithms; NaN if fewer than two different x are known."""
    pairs = pandas.DataFrame({"x": x, "y": y}).dropna()
    if pairs.x.nunique() < 2:
        return math.nan, math.nan
    b, log_a = numpy.polyfit(numpy.log(pairs.x), numpy.log(pairs.y), 1)
    return float(numpy.exp(log_a)), float(b)
