"""No curriculum: only the last symbol of each chain is asked, in every step (Musat, section 7)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hopscope.curricula.base import Curriculum


class NoCurriculum(Curriculum):
    """Targets hold x_D alone (K numbers); the paper finds that nothing is then learnt."""

    asks_every_hop = False

    def difficulty(self, offered: Sequence[int], progress: float, generator: torch.Generator) -> int:
        return offered[-1]
