"""KV shifting attention (Xu et al., 2024, arXiv:2411.19574)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import setting
from hopscope.models.attention.base import Attention, Heads, Mask, Own, Pattern
from hopscope.models.attention.softmax import Softmax


@dataclass(frozen=True)
class KVShift(Attention):
    """Keys and values mix a position with the one before: k'_i = a k_i + a' k_(i−1), v'_i = b v_i + b' v_(i−1).

    (a, a', b, b') are learned per head. With (1, 0, 1, 0) it is softmax attention; with (0, 1, 1, 0) a single layer can
    be an induction head. The paper draws a and b from U(0, 1) and sets a' = 1 − a, b' = 1 − b.
    """

    shifted: ClassVar[bool] = True

    start: str = setting(
        "half", "initial weights of the mix: half of each, or drawn from U(0, 1) (paper)", choices=("half", "drawn")
    )

    def own(self, n_heads: int, d_head: int) -> dict[str, Tensor]:
        return {"key_mix": torch.full((n_heads, 2), 0.5), "value_mix": torch.full((n_heads, 2), 0.5)}

    def draw(self, own: Own, generator: torch.Generator) -> None:
        if self.start == "drawn":
            for mix in (own["key_mix"], own["value_mix"]):
                here = torch.rand(len(mix), generator=generator, device=generator.device)
                mix.copy_(torch.stack([here, 1 - here], 1))

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        return Softmax().attend(q, blend(k, own["key_mix"]), blend(v, own["value_mix"]), mask, own)


def blend(x: Heads, mix: Float[Tensor, "head two"]) -> Heads:
    """mix₀ x_i + mix₁ x_(i−1), with x_(−1) = 0."""
    before = torch.cat([torch.zeros_like(x[:, :, :1]), x[:, :, :-1]], 2)
    here, shifted = mix[:, None, None, :].unbind(-1)  # head 1 1
    return here * x + shifted * before
