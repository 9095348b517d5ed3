"""The implicit curriculum: every hop of every chain is asked at once (Musat, ICLR 2025, section 7)."""

from __future__ import annotations

from hopscope.curricula.base import Curriculum


class Implicit(Curriculum):
    """Targets hold all D successors (D·K numbers); what easy hops teach, hard hops reuse."""

    asks_every_hop = True
