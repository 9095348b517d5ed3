"""Look-up attention: a query attends to the value of its first fact (ours; Musat, 2025, section 9.2)."""

from __future__ import annotations

from hopscope.measures.base import Observation, attention, roles

RANGE = (0.0, 1.0)
NEEDS = (attention, roles("query", "value[1]"))


def look_up_attention(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) of a query to the first value of its chain, per head; 1/N if no chain is followed."""
    names = seen.batch.roles.names
    pair = names.index("query"), names.index("value[1]")
    return {n: float(seen.batch.roles.strengths(p[:, None])[0, 0][pair]) for n, p in seen.patterns()}
