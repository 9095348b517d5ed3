"""Attention by lag: how far from where its token stood before does a query look? (Ji-An et al., 2024, arXiv:2405.14992)

The lag curve of a head is its conditional response probability in the words of free recall: lag 0 is the token's
earlier place, +1 what followed it (an induction head), −1 what came before.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.measures.base import Observation, attention, roles

RANGE = (0.0, 1.0)
NEEDS = (attention, roles("query", "key[1]"))
GREATEST = 8  # lags on either side, as in the authors' code


def lag_attention(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) from `query` to the place `lag` behind `key[1]` of its chain, `L1H0 +1`, per head and lag.

    The mean is over the queries for which there is such a place, not after themselves; a lag at which there is none is
    left out.
    """
    wanted = seen.batch.roles.pairs("query", "key[1]", "same")
    found: dict[str, float] = {}
    for name, pattern in seen.patterns():
        curve = by_lag(pattern, wanted)
        found |= {f"{name} {lag:+d}": value for lag, value in curve.items() if value == value}
    return found


def by_lag(
    pattern: Float[Tensor, "batch query key"], earlier: Bool[Tensor, "batch query key"], greatest: int = GREATEST
) -> dict[int, float]:
    """Mean attention by lag from the places `earlier`; NaN where no query has such a place."""
    row, query, place = earlier.nonzero(as_tuple=True)
    curve = {}
    for lag in range(-greatest, greatest + 1):
        there = (place + lag >= 0) & (place + lag <= query)
        mean = pattern[row[there], query[there], place[there] + lag].mean()
        curve[lag] = float(mean) if there.any() else float("nan")
    return curve


def by_offset(pattern: Float[Tensor, "batch query key"], greatest: int = GREATEST) -> dict[int, float]:
    """Mean attention to the place so far back, from 0; over all queries that have such a place."""
    n = min(greatest, pattern.shape[-1] - 1)
    return {offset: float(torch.diagonal(pattern, -offset, -2, -1).mean()) for offset in range(n + 1)}
