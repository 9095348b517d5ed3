"""Induction score (Olsson et al., 2022; Song et al., 2024): attention from a query to the value of its fact."""

from __future__ import annotations

import torch

from hopscope.measures.base import Observation, attention, roles

RANGE = (0.0, 1.0)
NEEDS = (attention, roles("query", "value[1]"))


def induction_score(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) from `query` to `value[1]` of the same chain, per head.

    This is the signature of an induction head, in terms of the task's roles. Empty if no query of the batch has such a
    value.
    """
    wanted = seen.batch.roles.pairs("query", "value[1]", "same")  # batch query key
    rows = wanted.any(-1)
    if not rows.any():
        return {}
    return {name: float(torch.where(wanted, p, 0).sum(-1)[rows].mean()) for name, p in seen.patterns()}
