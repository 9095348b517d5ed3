"""EAP-GP (Zhang et al., NeurIPS 2025, arXiv 2502.06852) on paths: attribution along a path that follows gradients.

Integrated gradients go straight from the model to null, and most of the way the loss may be flat. GradPath (Zhuo & Ge,
2024) starts at the model as it is, and each step goes where the squared distance of the answers to those with all null
falls fastest; the step's length is fixed. The derivative by a path's gate is averaged over these points.

Where all published steps are of inputs, here they are of gates, within 0–1. So many steps are together as long as the
straight way. The scores do not add up to L(null) − L(model), for the way need not end at null.
"""

from __future__ import annotations

import torch

from bench.baselines.base import Clock, Proposal, signed_and_absolute
from bench.baselines.gates import Gates
from bench.metrics import Yardstick

STEPS = 20


def eap_gp(lab: Yardstick, seed: int = 0, steps: int = STEPS) -> list[Proposal]:
    """Two orders: by signed and by absolute scores."""
    clock, gates = Clock(lab), Gates(lab.evaluator, lab.null)
    with torch.no_grad():
        null = gates.outputs(torch.zeros(gates.shape))
    at = gates.at(gates.paths)
    length, total = float(at.sum()) ** 0.5 / steps, torch.zeros(gates.shape)
    for _ in range(steps):
        leaf = at.clone().requires_grad_()
        with torch.enable_grad():
            outputs = gates.outputs(leaf)
            loss = gates.ground.batch.task.loss(outputs, gates.ground.batch.targets)
            [slope] = torch.autograd.grad(loss, [leaf], retain_graph=True)
            [away] = torch.autograd.grad((outputs - null).square().sum(), [leaf])
        gates.backwards += 2 * gates.share
        total += slope / steps
        at = (at - length * away / away.norm().clamp(min=1e-30)).clamp(0, 1)
    return signed_and_absolute("EAP-GP", gates.by_path(-total), clock.cost(gates), steps=steps)
