"""The interface of position codes, which add to the positions that a task's inputs may already carry."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import Variant
from hopscope.models.attention.base import Heads, Own


@dataclass(frozen=True)
class Positions(Variant, ABC):
    """A position code with its settings: a frozen dataclass, one per file, written `name(setting=value)`.

    A code may add an embedding to the input, rotate queries and keys in every layer, or add a bias to the scores of
    every layer.
    """

    #: Whether a learned embedding of the position, `W_pos`, is added to that of the input.
    embedded: ClassVar[bool] = False
    #: Whether the task's inputs must carry positions (True) or must not (False); None if it does not matter.
    carried: ClassVar[bool | None] = None

    def own(self, layer: int, n_heads: int, d_head: int, n_positions: int) -> dict[str, Tensor]:
        """The initial values of parameters that the code adds to a layer; most codes have none.

        Raises BadInput if the code does not fit heads of this width.
        """
        return {}

    def check(self, own_layers: int) -> None:
        """Raise BadInput if a setting names a layer without weights of its own; asked before new runs alone."""

    def turn(self, heads: Heads, places: Float[Tensor, "position"]) -> Heads:
        """Queries or keys, rotated by their positions."""
        return heads

    def bias(self, own: Own, mask: Float[Tensor, "query key"]) -> Float[Tensor, "*head query key"]:
        """The mask plus the code's bias on attention scores."""
        return mask

    def turns(self) -> bool:
        """Whether the code rotates queries and keys."""
        return type(self).turn is not Positions.turn


def distances(n: int, device: torch.device | None = None) -> Tensor:
    """The distance from key back to query for every pair, `(query, key)`; negative if the key comes later."""
    places = torch.arange(n, device=device)
    return places[:, None] - places
