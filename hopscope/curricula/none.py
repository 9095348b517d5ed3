"""No curriculum: only the last symbol of each chain is asked, in every step (Musat, section 7)."""

from __future__ import annotations

from hopscope.curricula.base import Curriculum


class NoCurriculum(Curriculum):
    """Targets hold x_D alone (K numbers); the paper finds that nothing is then learnt."""

    asks_every_hop = False
