"""Learned masks: gates trained to keep the loss with few paths open (Louizos et al., 2018; Bhaskar et al., 2024).

Every path has a hard-concrete gate: a stretched, noisy sigmoid that can be exactly 0 or 1 and still has a gradient. The
task's loss plus a price per expected open gate is minimised by Adam, once for each price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from bench.baselines.base import Clock, Proposal
from bench.baselines.gates import Gates
from bench.metrics import Yardstick
from hopscope.core.seeds import generator

TEMPERATURE, LOW, HIGH = 2 / 3, -0.1, 1.1  # β, γ, ζ of Louizos et al.
PRICES = (0.1, 0.3, 1.0, 3.0)  # loss per share of all gates that are open
STEPS, RATE, SEQUENCES = 200, 0.1, 32
OPEN = 2.0  # where log α begins: gates are open, on average


def learned_masks(
    lab: Yardstick, seed: int = 0, prices: Sequence[float] = PRICES, steps: int = STEPS
) -> list[Proposal]:
    """For each price an order of paths by log α: how firmly a gate stayed open."""
    return [masks_at(lab, price, seed, steps) for price in prices]


def masks_at(lab: Yardstick, price: float, seed: int = 0, steps: int = STEPS) -> Proposal:
    """Gates for one price."""
    clock, random = Clock(lab), generator(seed, "learned masks", 0)
    parts = [slice(i, i + SEQUENCES) for i in range(0, len(lab.evaluator.batch), SEQUENCES)]
    gates = [Gates(lab.evaluator, lab.null, "spread", part) for part in parts]
    location = torch.full(gates[0].shape, OPEN, requires_grad=True)
    adam = torch.optim.Adam([location], lr=RATE)
    for step in range(steps):
        part = gates[step % len(gates)]
        with torch.enable_grad():
            loss = part.loss(drawn(location, random)) + price * expected_open(location).mean()
            [location.grad] = torch.autograd.grad(loss, [location])
        adam.step()
        part.backwards += part.share
    scores = gates[0].by_path(location.detach())
    return Proposal(f"learned masks (price {price:g})", scores, cost=clock.cost(*gates), about={"price": price})


def drawn(location: Float[Tensor, "*gates"], random: torch.Generator) -> Float[Tensor, "*gates"]:
    """Gates with noise, 0–1."""
    u = torch.rand(location.shape, generator=random).clamp(1e-6, 1 - 1e-6)
    smooth = ((u.log() - (1 - u).log() + location) / TEMPERATURE).sigmoid()
    return (smooth * (HIGH - LOW) + LOW).clamp(0, 1)


def expected_open(location: Float[Tensor, "*gates"]) -> Float[Tensor, "*gates"]:
    """The probability that a gate is not exactly 0."""
    return (location - TEMPERATURE * math.log(-LOW / HIGH)).sigmoid()
