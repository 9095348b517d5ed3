"""What every node is worth at every token, guessed from gradients: attribution patching, EAP and EAP-IG of nodes.

A node's score is the first-order guess of what the metric loses if the node writes what it wrote on the paired prompt,
(now − paired) · ∂metric/∂node: attribution patching (Nanda, 2023), of which EAP (Syed et al., 2023) is the form for
edges. EAP-IG (Hanna et al., 2024) takes the slope's mean while the input goes from the paired prompt's to its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope_studies.real_hop.language.machine import Machine

STEPS = 5  # of EAP-IG, as its authors take by default


def eap(machine: Machine) -> Tensor:
    """Scores from one pass forward and one back, in nats; layer position node, the MLP of a layer behind its heads."""
    return scores(machine, [1.0])


def eap_ig(machine: Machine, steps: int = STEPS) -> Tensor:
    """Scores whose slopes are averaged over the middles of equal steps from the paired input to the prompt's own."""
    return scores(machine, [(step + 0.5) / steps for step in range(steps)])


def scores(machine: Machine, shares: list[float]) -> Tensor:
    """(now − paired) · mean slope, with the slopes at some shares of the way from the paired input."""
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
    """A tensor's gradient, zero where the metric does not depend on it."""
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
