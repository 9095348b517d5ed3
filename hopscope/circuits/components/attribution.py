"""Edges by gradients: EAP (Syed et al., 2023) and EAP-IG with inputs (Hanna et al., 2024).

An edge's score is a first-order estimate of how much the loss *rises* when the edge is cut: −(clean − null)·∂L/∂read,
summed over positions and sequences. EAP takes the gradient on the clean inputs. EAP-IG averages it along the straight
line of inputs from null to clean, so that the scores of the edges out of `input` add up to the cost of cutting all of
them. With the null `zero` and layer norm, few steps do not reach this sum: the norm removes the scale, so nearly all of
the change happens near null.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope.circuits.components.graph import Edge
from hopscope.circuits.components.patching import Patching

STEPS = 5  # steps of EAP-IG, its authors' default


def eap(lab: Patching) -> dict[Edge, float]:
    """Scores of all edges from one forward and one backward pass, in the unit of the loss."""
    return by_edge(lab, slope(lab, lab.clean[0]))


def eap_ig(lab: Patching, steps: int = STEPS) -> dict[Edge, float]:
    """Scores of all edges, with gradients averaged over the midpoints of equal steps from null to clean inputs."""
    null, way = lab.null[0], lab.clean[0] - lab.null[0]
    total = sum((slope(lab, null + (step + 0.5) / steps * way) for step in range(steps)), torch.zeros(()))
    return by_edge(lab, total / steps)


def slope(lab: Patching, inputs: Tensor) -> Tensor:
    """By how much the loss falls per unit of (clean − null) on each edge, (target, source)."""
    wiring = lab.wiring
    shape = len(wiring.targets), len(wiring.sources)
    whole = torch.ones(1, *shape, dtype=torch.bool, device=inputs.device)
    with torch.enable_grad():
        extra = torch.zeros(shape, dtype=inputs.dtype, device=inputs.device, requires_grad=True)
        [outputs] = lab.run(whole, inputs=inputs, extra=extra)
        loss = lab.losses_of(outputs).mean()  # every sequence weighs the same, as where edges are cut
        [found] = torch.autograd.grad(loss, extra)
    return -found


def by_edge(lab: Patching, scores: Tensor) -> dict[Edge, float]:
    values = scores.tolist()
    return {edge: values[t][s] for edge, (t, s) in zip(lab.wiring.edges, lab.wiring.places, strict=True)}
