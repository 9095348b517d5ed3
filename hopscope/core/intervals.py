"""Intervals of shares (Wilson, 1927)."""

from __future__ import annotations

import math

Z_95 = 1.959964  # the normal distribution's 97.5 % point


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share, after `hits` of `n`; (0, 1) if n is 0.

    The shares p whose distance from hits / n is at most z standard errors √(p(1 − p) / n).
    """
    if n == 0:
        return 0.0, 1.0
    share, square = hits / n, Z_95**2 / n
    middle = (share + square / 2) / (1 + square)
    margin = Z_95 * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    return max(0.0, middle - margin), min(1.0, middle + margin)
