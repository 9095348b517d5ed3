"""Prefix-matching score (Olsson et al., 2022): attention to positions that follow the same symbol."""

from __future__ import annotations

from hopscope.measures.base import Observation, attention, several_positions, symbols
from hopscope.models.attention.n_gram import followers

RANGE = (0.0, 1.0)
NEEDS = (attention, several_positions, symbols)


def prefix_score(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) from a position to all earlier ones that directly follow the same symbol, per head.

    Unlike the induction score it depends on the symbols, not on roles: it covers every position whose symbol occurred
    before. Empty if there is none, as always in a retrieval task.
    """
    inputs = seen.batch.inputs
    if inputs.ndim == 3:  # vectors: the position code does not belong to the symbol
        inputs = inputs[..., : inputs.shape[-1] // 2]
    return seen.attention_on(followers(inputs, 1))
