"""Associative memories: matrices that store pairs of embeddings as outer products (Cabannes, Dohmatob & Bietti, 2024).

A memory of pairs (z, y) is W = Σ α_zy u_y e_z^T; reading it gives the scores u_k^T W e_z. This module has storage in
one step, the gradients that have the form of such sums (Bietti et al., 2023, lemma 1), and the memory after one
gradient step. Rows of `inputs` are e_z, rows of `outputs` are u_k; `joint` is p(z, y), a matrix (input, output) that
sums to 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rows = Float[Tensor, "row d"]
Joint = Float[Tensor, "input output"]


def random_rows(n: int, d: int, random: torch.Generator, overlap: float = 0.0) -> Rows:
    """n random unit vectors in d dimensions that share a part; `overlap`, 0–1, is their mean inner product."""
    rows = torch.randn(n, d, generator=random)
    if not overlap:
        return torch.nn.functional.normalize(rows)
    shared = torch.nn.functional.normalize(torch.randn(1, d, generator=random))
    own = torch.nn.functional.normalize(rows - (rows @ shared.T) * shared)
    return overlap**0.5 * shared + (1 - overlap) ** 0.5 * own


def even_classes(n: int, n_classes: int) -> Int[Tensor, "input"]:
    """f*(z) = ⌊z M / N⌋: the class of each of N inputs; sizes of the M classes differ by at most one."""
    return torch.arange(n) * n_classes // n


def stored(outputs: Rows, inputs: Rows, weights: Joint) -> Float[Tensor, "d_out d_in"]:
    """W = Σ α_zy u_y e_z^T, with `weights` α, input by output."""
    return outputs.T @ weights.T.to(outputs.dtype) @ inputs


def stored_pairs(outputs: Rows, inputs: Rows, answers: Int[Tensor, "input"]) -> Float[Tensor, "d_out d_in"]:
    """W = Σ_z u_f*(z) e_z^T: every pair with weight 1."""
    return outputs[answers].T @ inputs


def scores(memory: Float[Tensor, "d_out d_in"], outputs: Rows, inputs: Rows) -> Float[Tensor, "input output"]:
    """u_k^T W e_z for every input z and output k."""
    return inputs @ memory.T @ outputs.T


def recall(scores: Float[Tensor, "input output"], answers: Int[Tensor, "input"]) -> float:
    """The share (0–1) of inputs whose highest score is that of their answer."""
    return float((scores.argmax(-1) == answers).double().mean())


# Gradients as memories -------------------------------------------------------------------------------------------


def population_loss(scores: Float[Tensor, "input output"], joint: Joint) -> Float[Tensor, ""]:
    """The expected cross-entropy of the softmax of the scores, E_(z,y)~p, in nats."""
    return -(joint * scores.log_softmax(-1)).sum()


def surprise(scores: Float[Tensor, "input output"], joint: Joint) -> Joint:
    """p(z) (p̂(k|z) − p(k|z)): the weight of each pair of input and output in the gradient."""
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
    """The gradient if the scores are F(W x_z) for any layers F above: Σ_k E_z[(p̂ − p) ∇_h F_k(h_z) x_z^T].

    u_k becomes the backward vector of output k, ∇_h F_k at h_z = W x_z; e_z becomes the activation x_z that the layers
    below compute from z. `above` is F.
    """
    hidden = inputs @ memory.T
    outputs = torch.stack([above(h) for h in hidden])
    backward = torch.stack([torch.autograd.functional.jacobian(above, h) for h in hidden])  # input output d_out
    return torch.einsum("zk,zko,zi->oi", surprise(outputs, joint), backward, inputs)


def one_step(outputs: Rows, inputs: Rows, answers: Int[Tensor, "input"], rate: float = 1.0) -> Tensor:
    """The memory after one gradient step from 0 on the population loss, with equally likely inputs.

    W_1 = η/N Σ_(z,k) (1{f*(z) = k} − 1/M) u_k e_z^T.
    """
    centred = outputs[answers] - outputs.mean(0)
    return rate / len(inputs) * centred.T @ inputs


# What outer products can hold ------------------------------------------------------------------------------------


def expected_recall(n: int, d: int, points: int = 801) -> float:
    """The expected recall (0–1) of n pairs stored as W = Σ u_i e_i^T, by a closed form of ours.

    Directions are random in d ≥ 3 dimensions, and all answers differ. W e_z = u_z + w with |w|² ≈ n/d. Let x be a
    coordinate of a random direction, with density ∝ (1 − x²)^((d−3)/2). The right score is s = 1 + |w| x. Each of the n
    − 1 others is x' + |W e_z| x'', with |W e_z|² = 2 s − 1 + n/d: x' is the inner product of input k with input z, x''
    that of output k with the direction of W e_z. The others are treated as independent.

    Args:
        n: number of pairs.
        d: dimensions.
        points: of the grid on which the integral is computed.
    """
    x = torch.linspace(-1, 1, points, dtype=torch.float64)
    density = (1 - x**2) ** ((d - 3) / 2)
    below = density.cumsum(0) - density / 2  # the distribution function of a coordinate, on the grid
    density, below = density / density.sum(), below / density.sum()
    right = 1 + (n / d) ** 0.5 * x
    length = (2 * right - 1 + n / d).clamp(min=1e-12).sqrt()
    bound = ((right[:, None] - x) / length[:, None]).clamp(-1, 1)  # right other: x'' must stay below it
    one_less = below[((bound + 1) / 2 * (points - 1)).round().long()] @ density
    return float(density @ one_less ** (n - 1))
