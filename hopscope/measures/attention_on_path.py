"""Attention on every path from role to role (Musat, ICLR 2025, section 9.1 and appendix D)."""

from __future__ import annotations

from itertools import product

from hopscope.measures.base import Observation, attention
from hopscope.problem.paths import Path
from hopscope.problem.roles import RELATIONS

RANGE = (0.0, 1.0)
NEEDS = (attention,)


def attention_on_path(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) per path, such as `L1H0 value[1]->key[1]`; paths to another chain end in ` (other)`.

    The mean is over the positions of the attending role that see a position of the attended one, as in circuits and in
    emergence. Only paths that can exist in the task, and that carry some attention, are listed.
    """
    roles = seen.batch.roles
    attention_by_path = {}
    for query, key, relation in product(roles.names, roles.attended, RELATIONS):
        ends = str(Path(0, 0, query, key, relation)).removeprefix("L0H0")
        for head, strength in seen.attention_on(seen.visible(query, key, relation)).items():
            if strength > 0:
                attention_by_path[head + ends] = strength
    return attention_by_path
