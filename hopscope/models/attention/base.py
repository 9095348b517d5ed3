"""What an attention variant supplies. Projections, activations' names and the output are the transformer's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

Heads = Float[Tensor, "batch head position d_head"]
Pattern = Float[Tensor, "batch head query key"]
Mask = Float[Tensor, "query key"]


class Attention(nn.Module, ABC):
    """One layer's rule of attention; a variant may have parameters of its own, one set per layer.

    Its output is `pattern @ values`, so whatever replaces the pattern replaces the mechanism.
    """

    #: Whether each row of the pattern is a distribution over the positions that the mask leaves.
    normalised = True

    def __init__(self, n_heads: int, d_head: int):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_head

    @abstractmethod
    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask) -> tuple[Pattern, Heads]:
        """The pattern and the values that it mixes. `mask` is 0 where attention is allowed, else −inf."""
