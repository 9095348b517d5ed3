"""Partial loss of each hop (Musat, ICLR 2025, section 7)."""

from __future__ import annotations

import math

from hopscope.measures.base import Observation

RANGE = (0.0, math.inf)


def hop_loss(seen: Observation) -> dict[str, float]:
    """Mean squared error (or cross-entropy in nats) per hop; `task.baselines` has the levels of a guess."""
    return seen.task.by_hop(seen.task.hop_losses(seen.outputs, seen.batch.targets))
