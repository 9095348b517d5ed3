"""Positions as the task's inputs carry them, and nothing else (Musat, ICLR 2025, arXiv:2411.12118, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.positions.base import Positions


@dataclass(frozen=True)
class Input(Positions):
    """The default where inputs carry a position code."""

    carried: ClassVar[bool | None] = True
