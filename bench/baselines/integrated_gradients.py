"""Attribution along the way from null to the model: integrated gradients (Sundararajan et al., 2017; EAP-IG, 2024).

The derivative by a path's gate is averaged over points at which all gates are alike, from 0 (all null) to 1 (the model
as it is). So the scores add up to L(null) − L(model), which a single gradient's do not. Points are the middles of equal
steps.
"""

from __future__ import annotations

import torch

from bench.baselines.base import Clock, Proposal, signed_and_absolute
from bench.baselines.gates import Gates
from bench.metrics import Yardstick

STEPS = 20


def integrated_gradients(lab: Yardstick, seed: int = 0, steps: int = STEPS) -> list[Proposal]:
    """Two orders: by signed and by absolute scores."""
    clock, gates = Clock(lab), Gates(lab.evaluator, lab.null)
    total = torch.zeros(gates.shape)
    for step in range(steps):
        _, gradient = gates.gradient(torch.full(gates.shape, (step + 0.5) / steps))
        total += gradient / steps
    return signed_and_absolute("integrated gradients", gates.by_path(-total), clock.cost(gates), steps=steps)
