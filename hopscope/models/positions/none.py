"""No positions: a causal mask alone tells earlier from later (Haviv et al., 2022, arXiv:2203.16634)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.positions.base import Positions


@dataclass(frozen=True)
class Nothing(Positions):
    """For tasks whose inputs carry no positions either."""

    carried: ClassVar[bool | None] = False
