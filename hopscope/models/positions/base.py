"""What a position code supplies, beside what a task's inputs already say of positions."""

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

    A variant may embed positions once, turn queries and keys in every layer, or add to every layer's scores.
    """

    #: Whether an embedding of the position, `W_pos`, is learnt and added to that of the input.
    embedded: ClassVar[bool] = False
    #: Whether the code relies on positions that a task's inputs carry.
    carried: ClassVar[bool | None] = None

    def own(self, layer: int, n_heads: int, d_head: int, n_positions: int) -> dict[str, Tensor]:
        """Parameters that a layer learns for its positions, at their starting values; most codes have none.

        Raises BadInput where the code does not fit such heads.
        """
        return {}

    def turn(self, heads: Heads, places: Float[Tensor, "position"]) -> Heads:
        """Queries, or keys, as positions leave them."""
        return heads

    def bias(self, own: Own, mask: Float[Tensor, "query key"]) -> Float[Tensor, "*head query key"]:
        """The mask with what positions add to scores."""
        return mask

    def turns(self) -> bool:
        """Whether `turn` does anything."""
        return type(self).turn is not Positions.turn


def distances(n: int, device: torch.device | None = None) -> Tensor:
    """How many positions a key stands before its query, `(query, key)`; negative where it stands behind."""
    places = torch.arange(n, device=device)
    return places[:, None] - places
