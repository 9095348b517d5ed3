"""Associative memories: matrices that store pairs of embeddings as outer products (Cabannes, Dohmatob & Bietti, 2024).

A memory of pairs (z, y) is W = Σ α_zy u_y e_z^T, read by the scores u_k^T W e_z. Here stand storage in one go, the
gradients that write such sums (Bietti et al., 2023, lemma 1), and what one step along them stores. Rows of `inputs`
are e_z, rows of `outputs` u_k; `joint` is p(z, y), an input by output matrix that sums to 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rows = Float[Tensor, "row d"]
Joint = Float[Tensor, "input output"]


def random_rows(n: int, d: int, random: torch.Generator, overlap: float = 0.0) -> Rows:
    """n random directions in d dimensions; any two have the mean inner product `overlap`, by a part they all share."""
    rows = torch.randn(n, d, generator=random)
    if not overlap:
        return torch.nn.functional.normalize(rows)
    shared = torch.nn.functional.normalize(torch.randn(1, d, generator=random))
    own = torch.nn.functional.normalize(rows - (rows @ shared.T) * shared)
    return overlap**0.5 * shared + (1 - overlap) ** 0.5 * own


def even_classes(n: int, n_classes: int) -> Int[Tensor, "input"]:
    """f*(z) = ⌊z M / N⌋: every class of the M as often as any other, give or take one."""
    return torch.arange(n) * n_classes // n


def stored(outputs: Rows, inputs: Rows, weights: Joint) -> Float[Tensor, "d_out d_in"]:
    """W = Σ α_zy u_y e_z^T, with `weights` α, input by output."""
    return outputs.T @ weights.T.to(outputs.dtype) @ inputs


def stored_pairs(outputs: Rows, inputs: Rows, answers: Int[Tensor, "input"]) -> Float[Tensor, "d_out d_in"]:
    """W = Σ_z u_f*(z) e_z^T: every pair once."""
    return outputs[answers].T @ inputs


def scores(memory: Float[Tensor, "d_out d_in"], outputs: Rows, inputs: Rows) -> Float[Tensor, "input output"]:
    """u_k^T W e_z of every input and output."""
    return inputs @ memory.T @ outputs.T


def recall(scores: Float[Tensor, "input output"], answers: Int[Tensor, "input"]) -> float:
    """Share (0–1) of the inputs whose greatest score is that of their answer."""
    return float((scores.argmax(-1) == answers).double().mean())


# Gradients as memories -------------------------------------------------------------------------------------------


def population_loss(scores: Float[Tensor, "input output"], joint: Joint) -> Float[Tensor, ""]:
    """E_(z,y)~p of the cross-entropy of softmax scores, in nats."""
    return -(joint * scores.log_softmax(-1)).sum()


def surprise(scores: Float[Tensor, "input output"], joint: Joint) -> Joint:
    """p(z) (p̂(k|z) − p(k|z)): what the gradient weighs every pair of input and output by."""
    return joint.sum(-1, keepdim=True) * scores.softmax(-1) - joint


def gradient(
    memory: Float[Tensor, "d_out d_in"], outputs: Rows, inputs: Rows, joint: Joint
) -> Float[Tensor, "d_out d_in"]:
    """∇_W L = Σ_k E_z[(p̂_W(k|z) − p(k|z)) u_k e_z^T]: the population loss's gradient is a memory (lemma 1)."""
    return stored(outputs, inputs, surprise(scores(memory, outputs, inputs), joint))


def deep_gradient(
    memory: Float[Tensor, "d_out d_in"],
    above: Callable[[Float[Tensor, "d_out"]], Float[Tensor, "output"]],
    inputs: Rows,
    joint: Joint,
) -> Float[Tensor, "d_out d_in"]:
    """The same where scores are `above(W x_z)`, for any layers above: Σ_k E_z[(p̂ − p) ∇_h F_k(h_z) x_z^T].

    u_k is replaced by the backward vector of output k at z, ∇_h F_k at h_z = W x_z, and e_z by the activation x_z
    that the layers below make of z.
    """
    hidden = inputs @ memory.T
    found = torch.stack([above(h) for h in hidden])
    backward = torch.stack([torch.autograd.functional.jacobian(above, h) for h in hidden])  # input output d_out
    return torch.einsum("zk,zko,zi->oi", surprise(found, joint), backward, inputs)


def one_step(outputs: Rows, inputs: Rows, answers: Int[Tensor, "input"], rate: float = 1.0) -> Tensor:
    """The memory after one gradient step from 0 on the population loss, inputs even.

    W_1 = η/N Σ_(z,k) (1{f*(z) = k} − 1/M) u_k e_z^T.
    """
    centred = outputs[answers] - outputs.mean(0)
    return rate / len(inputs) * centred.T @ inputs


# What outer products can hold ------------------------------------------------------------------------------------


def expected_recall(n: int, d: int, points: int = 801) -> float:
    """Recall (0–1) of n pairs by W = Σ u_i e_i^T, random directions in d ≥ 3 dimensions, answers all different (ours).

    W e_z = u_z + w with |w|² ≈ n/d. Let x be a coordinate of a random direction, of density ∝ (1 − x²)^((d−3)/2). Then
    the right score is s = 1 + |w| x, and each of the n − 1 others x' + |W e_z| x'': what input k shares with z, and
    output k with W e_z, where |W e_z|² = 2 s − 1 + n/d. The others are taken as independent.
    """
    x = torch.linspace(-1, 1, points, dtype=torch.float64)
    density = (1 - x**2) ** ((d - 3) / 2)
    below = density.cumsum(0) - density / 2  # distribution function of a coordinate, on the grid
    density, below = density / density.sum(), below / density.sum()
    right = 1 + (n / d) ** 0.5 * x
    length = (2 * right - 1 + n / d).clamp(min=1e-12).sqrt()
    bound = ((right[:, None] - x) / length[:, None]).clamp(-1, 1)  # right other: where x'' must stay below
    one_less = below[((bound + 1) / 2 * (points - 1)).round().long()] @ density
    return float(density @ one_less ** (n - 1))
