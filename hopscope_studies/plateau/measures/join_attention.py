"""Join attention: a fact's value position attends to its key, on average over facts (ours).

The order parameter of the study `plateau`. Musat (ICLR 2025, section 8.2 (i)) finds this path in the first layer in
use.
"""

from __future__ import annotations

import re

from hopscope.measures.base import Observation, attention, roles

RANGE = (0.0, 1.0)
NEEDS = (attention, roles("key[1]", "value[1]"))


def join_attention(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) of a fact's value position to its key, over all hops of the chains, per head."""
    names = seen.batch.roles.names
    steps = [step for name in names for step in re.findall(r"^key(\[\d+\])$", name) if f"value{step}" in names]
    of = [(names.index(f"value{step}"), names.index(f"key{step}")) for step in steps]
    found = {}
    for name, pattern in seen.patterns():
        same = seen.batch.roles.strengths(pattern[:, None])[0, 0]
        found[name] = sum(float(same[pair]) for pair in of) / len(of)
    return found
