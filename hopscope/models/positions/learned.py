"""A learned embedding of the position, added to that of the input (Radford et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hopscope.models.positions.base import Positions


@dataclass(frozen=True)
class Learned(Positions):
    """The default if inputs carry no positions; otherwise it is added to those that they carry."""

    embedded: ClassVar[bool] = True
