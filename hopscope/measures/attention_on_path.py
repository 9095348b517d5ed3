"""Attention on every path from role to role (Musat, ICLR 2025, section 9.1 and appendix D)."""

from __future__ import annotations

from hopscope.measures.base import Observation, attention
from hopscope.problem.paths import Path
from hopscope.problem.roles import RELATIONS

RANGE = (0.0, 1.0)
NEEDS = (attention,)


def attention_on_path(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) per path, such as `L1H0 value[1]->key[1]`; paths to another chain end in ` (other)`.

    Only paths that can exist in the task, and that the mask allows to carry any attention, are listed.
    """
    names, attended = seen.batch.roles.names, seen.batch.roles.attended
    attention_by_path = {}
    for layer in range(seen.model.architecture.n_layers):
        strengths = seen.batch.roles.strengths(seen.cache["pattern", layer])
        for r, h, q, k in (strengths > 0).nonzero().tolist():
            attention_by_path[str(Path(layer, h, names[q], attended[k], RELATIONS[r]))] = float(strengths[r, h, q, k])
    return attention_by_path
