"""A mixture: each batch has a difficulty drawn uniformly (Wang, Nichani et al., 2025, arXiv:2505.23683)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.curricula.base import Curriculum


class Mixture(Curriculum):
    """Easy and hard sequences throughout training; each asks only for its last symbol."""

    asks_every_hop = False
    changes_difficulty = True

    def difficulty(self, offered: Sequence[int], progress: float, generator: torch.Generator) -> int:
        return offered[int(torch.randint(len(offered), (), generator=generator, device=generator.device))]
