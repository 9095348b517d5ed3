"""Only the positions that the task's inputs carry (Musat, ICLR 2025, arXiv:2411.12118, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.positions.base import Positions


@dataclass(frozen=True)
class Input(Positions):
    """No code in addition to the inputs' own; the default if inputs carry a position code."""

    carried: ClassVar[bool | None] = True
