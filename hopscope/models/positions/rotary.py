"""Rotary position embedding: queries and keys are rotated by their position (Su et al., 2021, arXiv:2104.09864)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.models.attention.base import Heads
from hopscope.models.positions.base import Positions


@dataclass(frozen=True)
class Rotary(Positions):
    """Components i and i + d_head / 2 of a query or key are rotated by t · base^(−2i / d_head) at position t.

    So q·k depends only on the distance. These pairs are those of GPT-NeoX and Llama. The paper pairs adjacent
    components, which is equivalent up to a permutation.
    """

    base: float = setting(10_000.0, "wavelengths range up to 2π times this", low=1)

    def own(self, layer: int, n_heads: int, d_head: int, n_positions: int) -> dict[str, Tensor]:
        if d_head % 2:
            raise BadInput(f"rotary positions need an even d-head; got {d_head}")
        return {}

    def turn(self, heads: Heads, places: Float[Tensor, "position"]) -> Heads:
        d_head = heads.shape[-1]
        exponents = torch.arange(0, d_head, 2, device=heads.device, dtype=torch.float32) / d_head
        angles = places[:, None] * self.base**-exponents  # position half
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        first, second = heads.chunk(2, -1)
        return (heads * cos + torch.cat([-second, first], -1) * sin).to(heads.dtype)
