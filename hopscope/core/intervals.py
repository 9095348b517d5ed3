"""Confidence intervals of shares, and of means of values between 0 and 1 (Wilson, 1927)."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z_95 = 1.959964  # the normal distribution's 97.5 % point


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
