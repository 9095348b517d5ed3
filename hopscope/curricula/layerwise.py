"""Stages of doubling difficulty, 1, 2, 4, … hops: each needs one more layer (Wang, Nichani et al., 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.curricula.staged import Staged


class Layerwise(Staged):
    """As `staged`, but each stage doubles the hops, as a further layer can; the last stage is the hardest.

    A layer joins two runs of hops into one twice as long, so 1, 2, 3, … layers can do 1, 2, 4, … hops. Saparov et al.
    (2024, arXiv:2412.04703) train search in this way, too.
    """

    def difficulty(self, offered: Sequence[int], progress: float, generator: torch.Generator) -> int:
        stages = [hops for hops in offered if hops & (hops - 1) == 0 or hops == offered[-1]]
        return super().difficulty(stages, progress, generator)
