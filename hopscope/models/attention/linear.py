"""Linear attention: scores without a softmax (Katharopoulos et al., 2020; von Oswald et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.attention.base import Attention, Heads, Mask, Own, Pattern


@dataclass(frozen=True)
class Linear(Attention):
    """Pattern = q·k / √d_head where the mask allows, 0 elsewhere; entries may be negative and rows need not sum to 1.

    The bias of a position code enters as a factor exp(bias), as it does in a softmax.
    """

    normalised: ClassVar[bool] = False

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        return scores * mask.exp(), v
