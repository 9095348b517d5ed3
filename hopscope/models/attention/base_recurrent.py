"""What recurrent layers share: a causal mask, a short convolution, and a norm (Dao and Gu, 2024; Yang et al., 2024).

A linear recurrence has an exact parallel form, z = pattern · values, whose pattern is computed from queries and keys.
So its layer is an attention variant: patterns can be read, replaced and searched as those of softmax attention.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import setting
from hopscope.models.attention.base import Attention, Heads, Output, Own, Results, Stream


@dataclass(frozen=True)
class Recurrent(Attention, ABC):
    """A linear recurrence; queries, keys and values go through a short causal convolution and SiLU, in this order.

    Each head's result is divided by its root mean square, as in both papers (their gain is left to W_O). Without
    this norm a state space hardly learns, because its Δ makes the results small.
    """

    normalised: ClassVar[bool] = False
    recurrent: ClassVar[bool] = True

    convolution: int = setting(4, "positions that the convolution spans, the last its own; 0: none", low=0, high=64)

    def own(self, n_heads: int, d_head: int) -> dict[str, Tensor]:
        """`kernel`, one for each component of queries, keys and values; its last entry weighs the position itself."""
        return {"kernel": torch.zeros(3, n_heads, d_head, self.convolution)} if self.convolution else {}

    def draw(self, own: Own, generator: torch.Generator) -> None:
        """Kernels from U(−1/√n, 1/√n), n their length, as PyTorch's convolutions and the authors' code have them."""
        if self.convolution:
            even = torch.rand(own["kernel"].shape, generator=generator, device=generator.device)
            own["kernel"].copy_((2 * even - 1) * self.convolution**-0.5)

    def queries_and_keys(self, q: Heads, k: Heads, x: Stream, own: Own) -> tuple[Heads, Heads]:
        return self.mixed(q, own, 0), self.mixed(k, own, 1)

    def values(self, v: Heads, x: Stream, bias: Float[Tensor, "head d_head"], own: Own) -> Heads:
        return self.mixed(v, own, 2)

    def read_out(self, z: Results, x: Stream, weight: Output, own: Own) -> tuple[Tensor, Tensor]:
        return F.rms_norm(z, z.shape[-1:], eps=1e-5), weight

    def mixed(self, heads: Heads, own: Own, which: int) -> Heads:
        """Queries (0), keys (1) or values (2) after the convolution and SiLU."""
        return F.silu(convolved(heads, own["kernel"][which]) if self.convolution else heads)


def convolved(heads: Heads, kernel: Float[Tensor, "head d_head offset"]) -> Heads:
    """Σ_s kernel_s x_(i − n + 1 + s) for every component, with n the kernel's length and x = 0 before the sequence."""
    length, n = kernel.shape[-1], heads.shape[2]
    padded = F.pad(heads, (0, 0, length - 1, 0))
    return reduce(torch.add, (padded[:, :, s : s + n] * kernel[:, None, :, s] for s in range(length)))
