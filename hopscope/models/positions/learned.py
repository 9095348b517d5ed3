"""A learnt embedding of the position, added to the input's (Radford et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.positions.base import Positions


@dataclass(frozen=True)
class Learned(Positions):
    """The default where inputs carry no positions; elsewhere it comes on top of theirs."""

    embedded: ClassVar[bool] = True
