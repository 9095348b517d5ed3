"""No position code: only the causal mask breaks the symmetry (Haviv et al., 2022, arXiv:2203.16634)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.positions.base import Positions


@dataclass(frozen=True)
class Nothing(Positions):
    """No code, for tasks whose inputs carry no positions either."""

    carried: ClassVar[bool | None] = False
