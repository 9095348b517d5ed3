"""Symbols as vectors: lookup by number, random points, and a code for positions (Musat, section 6)."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.core.seeds import generator


def take(
    table: Float[Tensor, "batch symbol d_symbol"], index: Int[Tensor, "batch place"]
) -> Float[Tensor, "batch place d_symbol"]:
    """Each sequence's symbols, looked up by number."""
    return table.gather(1, index.long()[..., None].expand(-1, -1, table.shape[-1]))


def position_code(place: Int[Tensor, "*shape"], d_code: int, base: float) -> Float[Tensor, "*shape d_code"]:
    """[cos t·w_0, cos t·w_1, …, sin t·w_0, sin t·w_1, …] with w_i = base^(−2i/d_code); positions t count from 0.

    The frequencies are RoPE's (Su et al., 2021) with another base; base 100 and d_code 4 give w = 1, 1/10.
    """
    exponents = torch.arange(0, d_code, 2, device=place.device, dtype=torch.float32) / d_code
    angles = place[..., None].float() * base**-exponents
    return torch.cat([angles.cos(), angles.sin()], -1)


def position_shift(steps: float, d_code: int, base: float) -> Float[Tensor, "d_code d_code"]:
    """The rotation R with `position_code(t) @ R = position_code(t + steps)` for every t."""
    exponents = torch.arange(0, d_code, 2, dtype=torch.float32) / d_code
    angles = steps * base**-exponents
    cos, sin = angles.cos().diag(), angles.sin().diag()
    return torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])


@lru_cache(maxsize=64)
def points(what: str, count: int, width: int, seed: int) -> Float[Tensor, "point width"]:
    """Random points with components N(0, 1/width), so of length about 1; equal arguments give equal points."""
    return torch.randn(count, width, generator=generator(seed, what)) / math.sqrt(width)
