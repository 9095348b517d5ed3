"""Induction score (Olsson et al., 2022; Song et al., 2024): attention from a query to the value of its fact."""

from __future__ import annotations

from hopscope.measures.base import Observation, attention, roles

RANGE = (0.0, 1.0)
NEEDS = (attention, roles("query", "value[1]"))


def induction_score(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) from `query` to `value[1]` of the same chain, per head.

    This is the signature of an induction head, in terms of the task's roles. The mean is over the queries that see such
    a value; empty if none of the batch does.
    """
    return seen.attention_on(seen.visible("query", "value[1]", "same"))
