"""A mixture: every batch is of a difficulty drawn evenly (Wang, Nichani et al., 2025, arXiv:2505.23683)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.curricula.base import Curriculum


class Mixture(Curriculum):
    """Easy and hard sequences side by side from the first step to the last; only the last symbol is asked of each."""

    asks_every_hop = False
    changes_difficulty = True

    def difficulty(self, offered: Sequence[int], progress: float, generator: torch.Generator) -> int:
        return offered[int(torch.randint(len(offered), (), generator=generator, device=generator.device))]
