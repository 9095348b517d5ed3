"""Linear attention: the scores themselves mix the values (Katharopoulos et al., 2020; von Oswald et al., 2023)."""

from __future__ import annotations

from hopscope.models.attention.base import Attention, Heads, Mask, Pattern


class Linear(Attention):
    """Pattern = q·k / √d_head where the mask allows, 0 elsewhere; rows need not sum to 1 and may be negative."""

    normalised = False

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask) -> tuple[Pattern, Heads]:
        scores = (q * self.d_head**-0.5) @ k.transpose(-1, -2)
        return scores * mask.exp(), v
