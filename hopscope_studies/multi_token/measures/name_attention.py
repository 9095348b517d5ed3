"""Attention from the first token of a name to second tokens of its earlier mentions (ours; an induction head's)."""

from __future__ import annotations

import torch

from hopscope.measures.base import Need, Observation, attention
from hopscope_studies.multi_token.tasks.names_in_text import NamesInText

RANGE = (0.0, 1.0)
NEEDS = (attention, Need("texts with names", lambda task, shape: isinstance(task, NamesInText)))


def name_attention(seen: Observation) -> dict[str, float]:
    """Per head, the mean attention (0–1) at names from their second mention on. Empty if there are none."""
    task, draw = seen.task, seen.batch.draw
    assert isinstance(task, NamesInText)
    named, second = task.named(draw), draw["part"][:, :-1] == 2
    if not named.any():
        return {}
    return {
        name: float(torch.where(second[:, None], pattern, 0).sum(-1)[named].mean()) for name, pattern in seen.patterns()
    }
