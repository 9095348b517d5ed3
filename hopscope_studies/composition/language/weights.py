"""What the heads of a language model read and write, from its weights alone; and how well two heads' subspaces match.

The measures are those of `bridge`. The scales of norms are multiplied into the weights after them, and rotary rotations
are averaged over the distances between copies. The remaining W_QK depends on content only. The rank of a head's
matrices is at most the width of the head, so their singular vectors are computed from the factors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Head
from hopscope.language.lens.attention import Lens


def factors(lens: Lens, head: Head) -> dict[str, Tensor]:
    """A head's weights for queries, keys and values (d_model, d_head), and for its output (d_head, d_model)."""
    layer, number = head
    block = lens.layers[layer]
    attention = block.self_attn
    scale = block.input_layernorm(torch.ones(attention.q_proj.in_features))  # what the norm multiplies entries by
    size = attention.o_proj.in_features // lens.n_heads
    shared = number * attention.k_proj.out_features // size // lens.n_heads  # its key and value head
    parts = {"queries": (attention.q_proj, number), "keys": (attention.k_proj, shared)}
    parts |= {"values": (attention.v_proj, shared)}
    found = {name: scale[:, None] * part.weight[at * size : (at + 1) * size].T for name, (part, at) in parts.items()}
    return found | {"output": attention.o_proj.weight[:, number * size : (number + 1) * size].T}


def turned(lens: Lens, layer: int, queries: Tensor, distances: Sequence[int]) -> Tensor:
    """Query weights rotated to the mean of keys at these distances before them; shape (d_model, d_head)."""
    cos, sin = lens.position_codes(layer, queries[None], torch.tensor([list(distances)]))  # 1 distance d_head
    half = queries.shape[1] // 2
    crossed = torch.cat([-queries[:, half:], queries[:, :half]], 1)
    return queries * cos[0].mean(0) + crossed * sin[0].mean(0)


def query_key(lens: Lens, head: Head, distances: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The two factors of W_QK, for queries and keys: up to scaling, a score is x_query Q Kᵀ x_key."""
    found = factors(lens, head)
    return turned(lens, head[0], found["queries"], distances), found["keys"]


def output_value(lens: Lens, head: Head) -> tuple[Tensor, Tensor]:
    """The two factors of W_OV, of shape (d_model, d_head): x at a key adds x V Oᵀ to the stream."""
    found = factors(lens, head)
    return found["values"], found["output"].T


def right_directions(left: Tensor, right: Tensor, rank: int) -> Tensor:
    """The first right singular vectors of `left @ right.T`; shape (d_model, rank)."""
    (_, one), (basis, other) = torch.linalg.qr(left), torch.linalg.qr(right)
    return basis @ torch.linalg.svd(one @ other.T)[2][:rank].T


def written(lens: Lens, heads: Sequence[Head], rank: int) -> Tensor:
    """Orthonormal directions in which each head's W_OV writes most; shape (head, d_model, rank)."""
    return torch.stack([right_directions(*output_value(lens, head), rank) for head in heads])


def asked_of_keys(lens: Lens, heads: Sequence[Head], rank: int, distances: Sequence[int]) -> Tensor:
    """Orthonormal directions of the stream that matter most to each head's W_QK at the key; (head, d_model, rank)."""
    return torch.stack([right_directions(*query_key(lens, head, distances), rank) for head in heads])
