"""Random transition matrices, their stationary laws, and how much one variable says of another (in float64).

A transition matrix has a row per state that sums to 1: `rows[..., s, t]` is the probability of t after s.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: Added to every probability, so that no row is 0 throughout and every law has one stationary distribution (ours).
LEAST = 1e-9

Rows = Float[Tensor, "*batch state state"]


def dirichlet(
    concentration: float | Tensor, size: tuple[int, ...], generator: torch.Generator
) -> Float[Tensor, "*size"]:
    """Distributions over the last dimension from the symmetric Dirichlet law, float64, none with a zero.

    Args:
        concentration: α > 0, of each entry, or a tensor that broadcasts to `size`; small: nearly all on one state.
        size: of the result; its last number is that of states.
        generator: of all randomness, on its device.
    """
    shape = torch.as_tensor(concentration, dtype=torch.float64, device=generator.device).expand(size)
    drawn = torch._standard_gamma(shape.contiguous(), generator=generator)
    return smoothed(drawn / drawn.sum(-1, keepdim=True).clamp(min=1e-300))


def smoothed(rows: Tensor) -> Tensor:
    """The same distributions with a little everywhere; a row of zeros becomes even."""
    raised = rows + LEAST
    return raised / raised.sum(-1, keepdim=True)


def stationary(rows: Rows) -> Float[Tensor, "*batch state"]:
    """The distribution μ with μ = μ·rows: the one solution of the linear equations with Σ μ = 1."""
    n = rows.shape[-1]
    system = rows.mT - torch.eye(n, dtype=rows.dtype, device=rows.device)
    system[..., -1, :] = 1.0  # one of the equations follows from the others
    aim = torch.zeros(*rows.shape[:-1], dtype=rows.dtype, device=rows.device)
    aim[..., -1] = 1.0
    found = torch.linalg.solve(system, aim).clamp(min=0)
    return found / found.sum(-1, keepdim=True)


def chosen(law: Float[Tensor, "batch state"], uniform: Float[Tensor, "batch"]) -> Int[Tensor, "batch"]:
    """The state that a number even in [0, 1) falls on, by the inverse of the distribution function."""
    return (uniform[:, None] >= law.cumsum(-1)).sum(-1).clamp(max=law.shape[-1] - 1)


def entropy(law: Float[Tensor, "*batch state"]) -> Float[Tensor, "*batch"]:
    """In nats."""
    return -torch.special.xlogy(law, law).sum(-1)


def total_variation(
    law: Float[Tensor, "*batch state"], other: Float[Tensor, "*batch state"]
) -> Float[Tensor, "*batch"]:
    """Half the sum of absolute differences: 0 for equal distributions, 1 for disjoint ones."""
    return 0.5 * (law - other).abs().sum(-1)


def chi_square(joint: Float[Tensor, "*batch state state"]) -> Float[Tensor, "*batch"]:
    """χ² mutual information, Σ p(x, y)² / (p(x) p(y)) − 1: 0 if independent, at most the number of states less 1."""
    independent = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    return (joint.square() / independent.clamp(min=1e-300)).sum((-1, -2)) - 1
