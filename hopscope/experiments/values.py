"""Values over runs that claims are about: what statistics make of them, and of what is unknown or never happened.

Two kinds of values are no numbers. NaN is a value of which nothing is known: number and spread leave it out, and a
bound on every value is not met by it. What never happened while it was watched is censored: it is later than any
number, `math.inf`, and is compared as such. `lags` makes differences of such times.
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

Statistic = Literal["lowest", "highest", "mean", "geometric mean", "median", "total", "share of"]
Values = Iterable[float] | float


def mean(values: Sequence[float]) -> float:
    """Of the values; NaN where infinities of both signs are among them."""
    return sum(values) / len(values)


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive values; 0 if one of them is 0."""
    return math.exp(mean([math.log(value) if value > 0 else -math.inf for value in values]))


#: By the words that stand before what the values are. A share is of truth values.
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
    """Values as a list; of a single number, that."""
    return [float(value) for value in values] if isinstance(values, Iterable) else [float(values)]


def known(values: Iterable[float]) -> list[float]:
    """All but NaN."""
    return [value for value in values if not math.isnan(value)]


def span(values: pandas.Series, digits: int = 2) -> str:
    """Lowest to highest of what is known, in words."""
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}" if len(values) else "unknown"


def lags(runs: Iterable[Iterable[float]]) -> list[float]:
    """Steps from each event to the next, over runs; each gives the times of the same events, in the order claimed.

    NaN or ∞ is never, −∞ before anything was watched. An event that never came says nothing of the one before it; one
    that came though the one before it never did contradicts the order, by −∞.
    """
    found = []
    for run in runs:
        times = [math.inf if math.isnan(time) else float(time) for time in run]
        found += [b - a for a, b in pairwise(times) if b < math.inf and not a == b == -math.inf]
    return found


def power_law(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """(a, b) of y = a x^b, by least squares of the logarithms; NaN where fewer than two different x are known."""
    pairs = pandas.DataFrame({"x": x, "y": y}).dropna()
    if pairs.x.nunique() < 2:
        return math.nan, math.nan
    b, log_a = numpy.polyfit(numpy.log(pairs.x), numpy.log(pairs.y), 1)
    return float(numpy.exp(log_a)), float(b)
