"""What the heads of a language model read and write, from its weights alone; and how well two heads' subspaces match.

The measures are those of `bridge`. Norms' scales are multiplied into the weights that read, and rotary turns averaged
over the distances at which copies follow each other. What remains of W_QK is the part that asks for content. A head's
matrices have the width of a head as their rank, so their singular vectors are found from the factors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hopscope.language.lens.ablation import Head
from hopscope.language.lens.attention import Lens


def factors(lens: Lens, head: Head) -> dict[str, Tensor]:
    """Queries, keys and values of a head by what they are made of, d_model d_head, and its output, d_head d_model."""
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
    """Queries turned relative to keys at these distances before them, averaged over the distances; d_model d_head."""
    cos, sin = lens.position_codes(layer, queries[None], torch.tensor([list(distances)]))  # 1 distance d_head
    half = queries.shape[1] // 2
    crossed = torch.cat([-queries[:, half:], queries[:, :half]], 1)
    return queries * cos[0].mean(0) + crossed * sin[0].mean(0)


def query_key(lens: Lens, head: Head, distances: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The two factors of W_QK, queries and keys: a score, but for its scaling, is x_query Q Kᵀ x_key."""
    found = factors(lens, head)
    return turned(lens, head[0], found["queries"], distances), found["keys"]


def output_value(lens: Lens, head: Head) -> tuple[Tensor, Tensor]:
    """The two factors of W_OV, d_model d_head: what x at a key adds to the stream is x V Oᵀ."""
    found = factors(lens, head)
    return found["values"], found["output"].T


def right_directions(left: Tensor, right: Tensor, rank: int) -> Tensor:
    """The first right singular vectors of `left @ right.T`; d_model rank."""
    (_, one), (basis, other) = torch.linalg.qr(left), torch.linalg.qr(right)
    return basis @ torch.linalg.svd(one @ other.T)[2][:rank].T


def written(lens: Lens, heads: Sequence[Head], rank: int) -> Tensor:
    """Orthonormal directions in which each head's W_OV writes most; head d_model rank."""
    return torch.stack([right_directions(*output_value(lens, head), rank) for head in heads])


def asked_of_keys(lens: Lens, heads: Sequence[Head], rank: int, distances: Sequence[int]) -> Tensor:
    """Orthonormal directions of the stream that matter most to each head's W_QK at the key; head d_model rank."""
    return torch.stack([right_directions(*query_key(lens, head, distances), rank) for head in heads])
