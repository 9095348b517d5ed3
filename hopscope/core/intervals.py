"""Confidence intervals: of shares, and of means of values between 0 and 1 (Wilson, 1927); of other means (Student).

And the sign test, for numbers of wins and losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Z_95 = 1.959964  # the normal distribution's 97.5 % point
#: Student's t at 97.5 %, for 1, 2, … degrees of freedom; beyond the table by Cornish and Fisher's series.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def wilson(hits: float, n: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's interval of a share, 95 % by default, after `hits` out of `n`; (0, 1) if n is 0.

    It holds the shares p whose distance from hits / n is at most z standard errors √(p(1 − p) / n).
    """
    if n == 0:
        return 0.0, 1.0
    share, square = hits / n, z**2 / n
    middle = (share + square / 2) / (1 + square)
    margin = z * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    return max(0.0, middle - margin), min(1.0, middle + margin)


def wilson_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of independent values from 0 to 1; (0, 1) if there are none.

    It is Wilson's interval of a share of the same size. Among variables between 0 and 1 with a given mean, those that
    take only 0 and 1 have the largest variance, so the interval is conservative.
    """
    return wilson(math.fsum(values), len(values))


def sign_test(wins: int, of: int) -> float:
    """The probability that a fair coin shows heads at least `wins` times in `of` tosses."""
    return sum(math.comb(of, k) for k in range(wins, of + 1)) / 2**of


def student(freedom: int) -> float:
    """Student's t at 97.5 %, to three digits beyond the table."""
    if freedom <= len(T_975):
        return T_975[freedom - 1]
    z, f = Z_95, freedom
    return z + (z**3 + z) / (4 * f) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f * f)


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of independent values, by Student's t; NaN for fewer than two, or unknown ones."""
    n, mean = len(values), sum(values) / max(1, len(values))
    margin = student(n - 1) * math.dist(values, [mean] * n) / math.sqrt(n * (n - 1)) if n > 1 else math.nan
    return mean - margin, mean + margin
