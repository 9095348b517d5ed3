"""Softmax attention (Vaswani et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.attention.base import Attention, Heads, Mask, Own, Pattern


@dataclass(frozen=True)
class Softmax(Attention):
    """Pattern = softmax(q·k / √d_head + mask), not fused, so that it can be read and replaced."""

    keeps_values: ClassVar[bool] = True

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2) + mask
        return scores.softmax(-1), v
