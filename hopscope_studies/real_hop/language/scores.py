"""The effect of every node at every token, estimated from gradients: attribution patching, EAP and EAP-IG of nodes.

A node's score estimates to first order what the metric loses if the node writes what it wrote on the paired prompt,
(now − paired) · ∂metric/∂node. This is attribution patching (Nanda, 2023), and EAP (Syed et al., 2023) is its form for
edges. EAP-IG (Hanna et al., 2024) averages the gradient while the input goes from the paired prompt's to its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope_studies.real_hop.language.machine import Machine

STEPS = 5  # steps of EAP-IG, its authors' default


def eap(machine: Machine) -> Tensor:
    """Scores from one forward and one backward pass, in nats; (layer, position, node), the MLP after its heads."""
    return scores(machine, [1.0])


def eap_ig(machine: Machine, steps: int = STEPS) -> Tensor:
    """Scores with gradients averaged over the midpoints of equal steps from the paired input to the prompt's own."""
    return scores(machine, [(step + 0.5) / steps for step in range(steps)])


def scores(machine: Machine, shares: list[float]) -> Tensor:
    """(now − paired) · mean gradient, with gradients at some shares of the way from the paired input."""
    now, paired, asks = machine.clean, machine.corrupt, machine.asks
    total = torch.zeros(machine.n_layers, machine.size, machine.n_heads + 1)
    for share in shares:
        with torch.enable_grad():
            way = paired.streams[0] + share * (now.streams[0] - paired.streams[0])
            written = machine.write(way.detach().requires_grad_(), trace=True)
            asks.difference(written.logits).sum().backward()
        for layer in range(machine.n_layers):
            z, mlp = now.z[layer] - paired.z[layer], now.mlp[layer] - paired.mlp[layer]
            total[layer, :, :-1] += (z * slope(written.z[layer])).sum((0, 3))
            total[layer, :, -1] += (mlp * slope(written.mlp[layer])).sum((0, 2))
    return total / len(asks) / len(shares)


def slope(tensor: Tensor) -> Tensor:
    """A tensor's gradient; zero if the metric does not depend on it."""
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
