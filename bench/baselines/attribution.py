"""Attribution patching on pattern entries (Nanda, 2023; Syed et al., 2023): Σ (A_null − A)·∂L/∂A over a path's entries.

That is the first-order guess of how much the loss rises when the path becomes null, for all paths from one forward and
one backward pass. It is minus the derivative by a gate of value 1 that mixes each entry with its null.
"""

from __future__ import annotations

import torch

from bench.baselines.base import Clock, Proposal, signed_and_absolute
from bench.baselines.gates import Gates
from bench.metrics import Yardstick


def attribution(lab: Yardstick, seed: int = 0) -> list[Proposal]:
    """Two orders: by signed and by absolute scores, summed per path and never over paths."""
    clock, gates = Clock(lab), Gates(lab.evaluator, lab.null)
    _, gradient = gates.gradient(torch.ones(gates.shape))
    return signed_and_absolute("attribution", gates.by_path(-gradient), clock.cost(gates))
