"""Random transition matrices, their stationary distributions, and measures of dependence, in float64.

A transition matrix has a row per state that sums to 1: `rows[..., s, t]` is the probability of t after s.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: Added to every probability, so that no row is all 0 and every matrix has one stationary distribution (ours).
LEAST = 1e-9

Rows = Float[Tensor, "*batch state state"]


def dirichlet(
    concentration: float | Tensor, size: tuple[int, ...], generator: torch.Generator
) -> Float[Tensor, "*size"]:
    """Distributions over the last dimension from the symmetric Dirichlet distribution, float64, without zeros.

    Args:
        concentration: α > 0 of every state, or a tensor that broadcasts to `size`; a small α puts nearly all the
            probability on one state.
        size: of the result; the last dimension is that of states.
        generator: the source of randomness; the result is on its device.
    """
    shape = torch.as_tensor(concentration, dtype=torch.float64, device=generator.device).expand(size)
    drawn = torch._standard_gamma(shape.contiguous(), generator=generator)
    return smoothed(drawn / drawn.sum(-1, keepdim=True).clamp(min=1e-300))


def smoothed(rows: Tensor) -> Tensor:
    """The same distributions with `LEAST` added everywhere; a row of zeros becomes uniform."""
    raised = rows + LEAST
    return raised / raised.sum(-1, keepdim=True)


def stationary(rows: Rows) -> Float[Tensor, "*batch state"]:
    """The distribution μ with μ = μ·rows, by solving these linear equations with Σ μ = 1."""
    n = rows.shape[-1]
    system = rows.mT - torch.eye(n, dtype=rows.dtype, device=rows.device)
    system[..., -1, :] = 1.0  # one of the equations follows from the others
    right = torch.zeros(*rows.shape[:-1], dtype=rows.dtype, device=rows.device)
    right[..., -1] = 1.0
    law = torch.linalg.solve(system, right).clamp(min=0)
    return law / law.sum(-1, keepdim=True)


def chosen(law: Float[Tensor, "batch state"], uniform: Float[Tensor, "batch"]) -> Int[Tensor, "batch"]:
    """A state drawn by inverse transform sampling from uniform numbers in [0, 1)."""
    return (uniform[:, None] >= law.cumsum(-1)).sum(-1).clamp(max=law.shape[-1] - 1)


def entropy(law: Float[Tensor, "*batch state"]) -> Float[Tensor, "*batch"]:
    """Entropy in nats."""
    return -torch.special.xlogy(law, law).sum(-1)


def total_variation(
    law: Float[Tensor, "*batch state"], other: Float[Tensor, "*batch state"]
) -> Float[Tensor, "*batch"]:
    """Half the sum of absolute differences: 0 for equal distributions, 1 for disjoint ones."""
    return 0.5 * (law - other).abs().sum(-1)


def chi_square(joint: Float[Tensor, "*batch state state"]) -> Float[Tensor, "*batch"]:
    """χ² mutual information, Σ p(x, y)² / (p(x) p(y)) − 1: from 0 (independent) to the number of states minus 1."""
    independent = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    return (joint.square() / independent.clamp(min=1e-300)).sum((-1, -2)) - 1
