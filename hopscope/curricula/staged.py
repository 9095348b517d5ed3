"""Stages: difficulties 1, 2, 3, … one after another, of equal length (easy to hard; Bengio et al., 2009)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.curricula.base import Curriculum


class Staged(Curriculum):
    """One hop first, then two, up to the hardest; earlier stages do not return. Only the last symbol is asked."""

    asks_every_hop = False
    changes_difficulty = True
    draws_difficulty = False

    def difficulty(self, offered: Sequence[int], progress: float, generator: torch.Generator) -> int:
        return offered[min(len(offered) - 1, int(progress * len(offered)))]
