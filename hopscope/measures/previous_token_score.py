"""Previous-token score (Olsson et al., 2022): how much each head attends one position back."""

from __future__ import annotations

from hopscope.measures.base import Observation, attention, several_positions

RANGE = (0.0, 1.0)
NEEDS = (attention, several_positions)


def previous_token_score(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) of a position to the one before it, over all positions but the first, per head."""
    return {name: float(p.diagonal(-1, -2, -1).mean()) for name, p in seen.patterns()}
