"""A learnt bias by distance, per layer and head (Shaw et al., 2018, arXiv:1803.02155, scalar as in T5 and ALiBi).

Where the bias of distance 1 starts above 0 in layer 0, a model begins with a head for the previous token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.models.attention.base import Own
from hopscope.models.positions.base import Positions, distances

ENTRY = re.compile(r"(?:L(\d+))?(?:H(\d+))? *(\d+):(-?\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Relative(Positions):
    """Scores get scale · β[distance]; β is learnt per layer and head, for every distance from 0 on.

    Keys behind their query, which only a model without mask sees, share β of their distance with those before it.
    """

    scale: float = setting(10.0, "what β is multiplied by: the greater, the faster it is learnt", low=0)
    start: str = setting(
        "", "where scale · β starts, 0 elsewhere: 'L0 1:4' is 4 for distance 1 in layer 0; L0H1 one head; ';' between"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        written = [f"{where_of(layer, head)}{place}:{value:g}" for layer, head, place, value in entries(self.start)]
        object.__setattr__(self, "start", "; ".join(written))  # one way to write it
        if written and not self.scale:
            raise BadInput("a relative code that starts above 0 needs a scale above 0")

    def own(self, layer: int, n_heads: int, d_head: int, n_positions: int) -> dict[str, Tensor]:
        beta = torch.zeros(n_heads, n_positions)
        for in_layer, head, distance, value in entries(self.start):
            if distance >= n_positions or (head or 0) >= n_heads:
                raise BadInput(
                    f"relative start names distance {distance} of head {head or 0}; "
                    f"the model has distances to {n_positions - 1} and heads to {n_heads - 1}"
                )
            if in_layer in (None, layer):
                beta[slice(None) if head is None else head, distance] = value / self.scale
        return {"beta": beta}

    def bias(self, own: Own, mask: Float[Tensor, "query key"]) -> Float[Tensor, "head query key"]:
        return mask + self.scale * own["beta"][:, distances(len(mask), mask.device).abs()]


def entries(start: str) -> Iterator[tuple[int | None, int | None, int, float]]:
    """Layer (None: all), head (None: all), distance and value of each part of `start`. Raises BadInput."""
    for part in filter(None, (part.strip() for part in start.split(";"))):
        found = ENTRY.fullmatch(part)
        if not found:
            raise BadInput(f"relative start must be written such as 'L0 1:4; L0H1 2:3'; got {part!r}")
        layer, head = (None if number is None else int(number) for number in found.groups()[:2])
        yield layer, head, int(found[3]), float(found[4])


def where_of(layer: int | None, head: int | None) -> str:
    """`L0H1 `, `L0 `, `H1 ` or nothing."""
    where = ("" if layer is None else f"L{layer}") + ("" if head is None else f"H{head}")
    return f"{where} " if where else ""
