"""A learned bias by distance, per layer and head (Shaw et al., 2018, arXiv:1803.02155; scalar as in T5 and ALiBi).

If the bias of distance 1 in layer 0 starts above 0, the model starts with a previous-token head.
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
    """Adds scale · β[distance] to scores; β is learned per layer and head, for every distance from 0.

    Without a mask, a key after its query has the same β as a key at the same distance before it.
    """

    scale: float = setting(10.0, "factor on β: the larger, the faster β is learned", low=0)
    start: str = setting(
        "", "initial scale · β, 0 elsewhere: 'L0 1:4' is 4 for distance 1 in layer 0; L0H1 one head; separated by ';'"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        written = [f"{where_of(layer, head)} {place}:{value:g}" for layer, head, place, value in entries(self.start)]
        object.__setattr__(self, "start", "; ".join(map(str.strip, written)))  # the canonical text
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

    def check(self, own_layers: int) -> None:
        named = max((layer or 0 for layer, *_ in entries(self.start)), default=0)
        if named >= own_layers:
            raise BadInput(f"relative start names layer {named}; the last with its own weights is {own_layers - 1}")

    def bias(self, own: Own, mask: Float[Tensor, "query key"]) -> Float[Tensor, "head query key"]:
        return mask + self.scale * own["beta"][:, distances(len(mask), mask.device).abs()]


def entries(start: str) -> Iterator[tuple[int | None, int | None, int, float]]:
    """Layer and head (None for all), distance and value of each entry of `start`. Raises BadInput if malformed."""
    for part in filter(None, (part.strip() for part in start.split(";"))):
        match = ENTRY.fullmatch(part)
        if not match:
            raise BadInput(f"relative start must be written such as 'L0 1:4; L0H1 2:3'; got {part!r}")
        layer, head = (None if number is None else int(number) for number in match.groups()[:2])
        yield layer, head, int(match[3]), float(match[4])


def where_of(layer: int | None, head: int | None) -> str:
    """`L0H1`, `L0`, `H1` or an empty text."""
    return ("" if layer is None else f"L{layer}") + ("" if head is None else f"H{head}")
