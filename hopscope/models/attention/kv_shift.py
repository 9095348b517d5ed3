"""KV shifting attention (Xu et al., 2024, arXiv:2411.19574)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.models.attention.base import Attention, Heads, Mask, Pattern
from hopscope.models.attention.softmax import Softmax


class KVShift(Attention):
    """Keys and values blend a position with the one before: k'_i = a k_i + a' k_(i−1), v'_i = b v_i + b' v_(i−1).

    One (a, a', b, b') per head, learnt. With (1, 0, 1, 0) it is softmax attention; with (0, 1, 1, 0) one layer is
    an induction head. The paper draws a and b from U(0, 1) with a' = 1 − a; here a, b start at ½, undrawn.
    """

    def __init__(self, n_heads: int, d_head: int):
        super().__init__(n_heads, d_head)
        self.key_mix = nn.Parameter(torch.full((n_heads, 2), 0.5))
        self.value_mix = nn.Parameter(torch.full((n_heads, 2), 0.5))
        self.softmax = Softmax(n_heads, d_head)

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask) -> tuple[Pattern, Heads]:
        return self.softmax.attend(q, blend(k, self.key_mix), blend(v, self.value_mix), mask)


def blend(x: Heads, mix: Float[Tensor, "head two"]) -> Heads:
    """mix₀ x_i + mix₁ x_(i−1), with x_(−1) = 0."""
    before = torch.cat([torch.zeros_like(x[:, :, :1]), x[:, :, :-1]], 2)
    here, shifted = mix[:, None, None, :].unbind(-1)  # head 1 1
    return here * x + shifted * before
