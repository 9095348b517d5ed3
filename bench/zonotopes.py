"""Zonotopes: regions of vectors, and bounds of what the layers of a transformer make of them.

A zonotope is a centre plus a sum of generators, each times a number in [-1, 1]. Linear maps are exact on it (Singh et
al., 2018). Three things of a transformer are not linear, and are bounded: softmax, by intervals of the differences of
scores (after Shi et al., 2020); GELU, by a line and its greatest distance; RMSNorm, by the interval of its scale. Each
adds generators.

All is float64. Rounding is not bounded here: who proves something with these bounds leaves a margin for it.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

#: The centre, then the generators, of a sequence's vectors.
Zonotope = Float[Tensor, "generator position width"]
#: Bounds of weights, low and high, or of other numbers.
Interval = tuple[Tensor, Tensor]

GRID = 64  # intervals in which GELU's distance from a line is looked at
CURVATURE = 1.0  # more than GELU's second derivative anywhere (0.798 at 0)


def ball(centre: Float[Tensor, "position width"], radius: float) -> Zonotope:
    """All that differs from the centre by at most the radius in every number."""
    return torch.cat([centre[None], box(torch.full_like(centre, radius))])


def box(radius: Float[Tensor, "position width"]) -> Zonotope:
    """A generator for every number that has a radius."""
    return torch.diag(radius.flatten())[radius.flatten() > 0].unflatten(1, radius.shape)


def spread(x: Zonotope) -> Float[Tensor, "position width"]:
    """How far each number can be from its centre."""
    return x[1:].abs().sum(0)


def padded(x: Zonotope, size: int) -> Zonotope:
    """A copy with further generators, which are 0."""
    return torch.cat([x, x.new_zeros(size - len(x), *x.shape[1:])])


def affine(x: Zonotope, weight: Float[Tensor, "width out"], bias: Float[Tensor, "out"]) -> Zonotope:
    """What a linear layer makes of a zonotope."""
    y = x @ weight
    y[0] += bias
    return y


def weighted(weights: Interval, x: Zonotope) -> tuple[Zonotope, Zonotope]:
    """Sums over positions with weights (query, key) that are known by intervals.

    A weight that is not exact makes one generator of the centre of what it weighs; a box bounds the rest.

    Returns:
        The sums with the generators that there were, and the further ones.
    """
    middle, half = (weights[0] + weights[1]) / 2, (weights[1] - weights[0]) / 2
    sums = torch.einsum("qk,gkd->gqd", middle, x)
    query, key = half.nonzero(as_tuple=True)
    errors = x.new_zeros(len(query), *sums.shape[1:])
    errors[range(len(query)), query] = half[query, key, None] * x[0, key]
    return sums, torch.cat([errors, box(half @ spread(x))])


def softmax(q: Zonotope, k: Zonotope, allowed: Float[Tensor, "query key"]) -> Interval:
    """Bounds of softmax(q kᵀ + allowed), (query, key) each, by intervals of the differences of scores.

    Of a score the terms with one generator keep it. The terms with two are bounded by the spreads of query and key.
    """
    centre = q[0] @ k[0].T + allowed
    linear = q[1:] @ k[0].T + torch.einsum("qe,gke->gqk", q[0], k[1:])
    squares = spread(q) @ spread(k).T
    low, high = torch.zeros_like(centre), torch.zeros_like(centre)
    for key in range(centre.shape[1]):
        seen = allowed[:, key] > -math.inf
        gap = centre - centre[:, key, None].masked_fill(~seen[:, None], 0.0)
        error = (linear - linear[..., key, None]).abs().sum(0) + squares + squares[:, key, None]
        error[:, key] = 0.0
        low[:, key] = torch.where(seen, 1 / (gap + error).exp().sum(-1), 0.0)
        high[:, key] = torch.where(seen, 1 / (gap - error).exp().sum(-1), 0.0)
    return low, high


def gelu(x: Zonotope) -> tuple[Zonotope, Float[Tensor, "position width"]]:
    """A line that GELU (its tanh form) is near to, and by how much at most.

    The line has GELU's slope between the ends of the interval. How far GELU is from it is looked at on a grid: in
    between it is farther by at most an eighth of the curvature times the square of the grid's step.

    Returns:
        The line's values, with the generators that there were, and the radius of the rest.
    """
    low, width = x[0] - spread(x), 2 * spread(x)
    grid = low + width * torch.linspace(0, 1, GRID + 1, dtype=x.dtype)[:, None, None]
    values = F.gelu(grid, approximate="tanh")
    slope = torch.where(width > 1e-9, (values[-1] - values[0]) / width.clamp(min=1e-9), 0.0)
    distance, slack = values - slope * grid, CURVATURE * (width / GRID).square() / 8
    top, bottom = distance.amax(0) + slack, distance.amin(0) - slack
    line = slope * x
    line[0] += (top + bottom) / 2
    return line, (top - bottom) / 2


def rms_scale(x: Zonotope, eps: float) -> Interval:
    """Bounds of 1 / √(mean of squares + eps), at every position.

    The square of the length is that of the centre, and terms with one generator, and what is at least 0 and at most
    the square of the spread.
    """
    centre, linear = x[0].square().sum(-1), 2 * (x[0] * x[1:]).sum(-1).abs().sum(0)
    most, least = centre + linear + spread(x).square().sum(-1), (centre - linear).clamp(min=0)
    return (most / x.shape[-1] + eps).rsqrt(), (least / x.shape[-1] + eps).rsqrt()
