"""Attention by lag: distance of what a query attends to from its token's earlier position (Ji-An et al., 2024).

The paper is arXiv:2405.14992. The lag curve of a head is the conditional response probability of free recall: lag 0 is
the token's earlier position, +1 the position after it (an induction head), −1 the position before it.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.measures.base import Observation, attention, roles

RANGE = (0.0, 1.0)
NEEDS = (attention, roles("query", "key[1]"))
GREATEST = 8  # lags on either side, as in the authors' code


def lag_attention(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) from `query` to the position `lag` after `key[1]` of its chain, `L1H0 +1`, per head and lag.

    The mean is over the queries that have such a position, not after themselves; a lag for which none has is left out.
    """
    wanted = seen.batch.roles.pairs("query", "key[1]", "same")
    shares: dict[str, float] = {}
    for name, pattern in seen.patterns():
        curve = by_lag(pattern, wanted)
        shares |= {f"{name} {lag:+d}": value for lag, value in curve.items() if value == value}
    return shares


def by_lag(
    pattern: Float[Tensor, "batch query key"], earlier: Bool[Tensor, "batch query key"], greatest: int = GREATEST
) -> dict[int, float]:
    """Mean attention by lag from the positions `earlier`; NaN where no query has such a position."""
    row, query, place = earlier.nonzero(as_tuple=True)
    curve = {}
    for lag in range(-greatest, greatest + 1):
        there = (place + lag >= 0) & (place + lag <= query)
        mean = pattern[row[there], query[there], place[there] + lag].mean()
        curve[lag] = float(mean) if there.any() else float("nan")
    return curve
