"""What two heads share: the matrices of a composed circuit, and how well they match (Song et al., 2024, section 3).

An induction head's W_QK compares a query's token with what a previous-token head's W_OV wrote at each key. If the two
use the same subspace of the residual stream, the "common bridge", their product is close to a multiple of the identity
there. The scales of LayerNorms are multiplied into the weights after them, and rotary rotations are averaged over the
distances that occur.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.models.base import Replacements
from hopscope.models.base_layers import AttentionLayer, LayerNorm
from hopscope.models.transformer import Transformer

Matrix = Float[Tensor, "d_model d_model"]


def reading(model: Transformer, layer: int) -> tuple[AttentionLayer, Float[Tensor, "d_model"]]:
    """A layer's heads, and the scale of the LayerNorm before them (ones if there is none)."""
    block = model.blocks[layer]
    scale = block.ln1.w if isinstance(block.ln1, LayerNorm) else torch.ones(model.architecture.d_model)
    return block.attn, scale  # type: ignore[return-value]


@torch.no_grad()
def query_key(model: Transformer, layer: int, head: int, distances: Sequence[int] = (0,)) -> Matrix:
    """W_QK of a head, so that a score is x_query W_QK x_key, averaged over the rotary rotations of these distances."""
    heads, scale = reading(model, layer)
    queries, keys = (scale[:, None] * weight[head] for weight in (heads.W_Q, heads.W_K))
    if not heads.code.turns():
        return queries @ keys.T
    places = torch.tensor([float(distance) for distance in distances])
    turned = heads.code.turn(queries[:, None, :].expand(-1, len(places), -1), places)  # d_model distance d_head
    return turned.mean(1) @ keys.T


@torch.no_grad()
def output_value(model: Transformer, layer: int, head: int) -> Matrix:
    """W_OV of a head: what x at a key adds to the stream of a query that attends to it is x W_OV."""
    heads, scale = reading(model, layer)
    return (scale[:, None] * heads.W_V[head]) @ heads.W_O[head]


def composed(induction: Matrix, previous: Matrix) -> Matrix:
    """W_QK W_OVᵀ: how a query's stream is compared with the stream that the earlier head read."""
    return induction @ previous.T


def diagonal_score(matrix: Float[Tensor, "n n"]) -> float:
    """(mean of the diagonal − mean) / standard deviation of all entries; 0 for a matrix of equal entries."""
    spread = matrix.std(correction=0)
    return float((matrix.diagonal().mean() - matrix.mean()) / spread) if spread > 0 else 0.0


def key_directions(induction: Matrix, rank: int) -> Float[Tensor, "d_model rank"]:
    """Orthonormal directions of the stream that matter most to W_QK at the key: its right singular vectors."""
    return torch.linalg.svd(induction)[2][:rank].T


def written_directions(previous: Matrix, rank: int) -> Float[Tensor, "d_model rank"]:
    """Orthonormal directions in which W_OV writes most."""
    return torch.linalg.svd(previous)[2][:rank].T


def subspace_match(induction: Matrix, previous: Matrix, rank: int) -> float:
    """Root mean square (0–1) of the cosines of the principal angles between the two subspaces.

    The authors also report the greatest cosine. At our widths it is near 1 even for random subspaces.
    """
    return float(overlap(key_directions(induction, rank), written_directions(previous, rank)))


def overlap(
    one: Float[Tensor, "*pair d_model rank"], other: Float[Tensor, "*pair d_model rank"]
) -> Float[Tensor, "*pair"]:
    """As `subspace_match`, for given orthonormal directions: the squared cosines sum to a Frobenius norm."""
    return (one.mT @ other).square().mean(-1).sum(-1).sqrt()


def random_match(d_model: int, rank: int) -> float:
    """The approximate mean of `subspace_match` for random subspaces: √(rank / d_model)."""
    return (rank / d_model) ** 0.5


def random_directions(d_model: int, rank: int, generator: torch.Generator) -> Float[Tensor, "d_model rank"]:
    """Random orthonormal directions."""
    return torch.linalg.qr(torch.randn(d_model, rank, generator=generator))[0]


def without(directions: Float[Tensor, "d_model rank"], layer: int) -> Replacements:
    """Replacements that project these directions out of the attention output of layer `layer`."""
    return {f"blocks.{layer}.hook_attn_out": lambda written: written - written @ directions @ directions.T}


def only(directions: Float[Tensor, "d_model rank"], layer: int) -> Replacements:
    """Replacements that keep only these directions of the attention output of layer `layer`."""
    return {f"blocks.{layer}.hook_attn_out": lambda written: written @ directions @ directions.T}
