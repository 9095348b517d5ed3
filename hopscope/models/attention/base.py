"""What an attention variant supplies. Projections, positions, names of activations and the output are the layer's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from hopscope.core.settings import Variant

Heads = Float[Tensor, "batch head position d_head"]
Pattern = Float[Tensor, "batch head query key"]
Stream = Float[Tensor, "batch position d_model"]
Results = Float[Tensor, "batch position head d_head"]
Output = Float[Tensor, "head d_head d_model"]
Mask = Float[Tensor, "*head query key"]
#: A layer's own parameters of a variant, by name.
Own = Mapping[str, Tensor] | nn.ParameterDict


@dataclass(frozen=True)
class Attention(Variant, ABC):
    """A rule of attention with its settings: a frozen dataclass, one per file, written `name(setting=value)`.

    Its output is `pattern @ values`, so whatever replaces the pattern replaces the mechanism.
    """

    #: Whether each row of the pattern is a distribution over the positions that the mask leaves.
    normalised: ClassVar[bool] = True
    #: Whether where it may attend depends on the tokens themselves; `masked` then says how.
    reads_tokens: ClassVar[bool] = False
    #: Whether `attend` leaves the values as they are: under a given pattern it need not be asked.
    keeps_values: ClassVar[bool] = False
    #: Whether what is written at a position depends, beside the heads' results there, on the stream there alone.
    writes_locally: ClassVar[bool] = True
    #: Whether keys and values hold what the position before holds, too: exact depths are then those of
    #: `hopscope.theory.shifted`, otherwise those of `hopscope.theory.depth`.
    shifted: ClassVar[bool] = False

    def own(self, n_heads: int, d_head: int) -> dict[str, Tensor]:
        """Parameters that each layer learns beside its projections, at their starting values; most rules have none.

        A name that begins with `W_` is drawn anew as all weights are (`Transformer.initialise`).
        """
        return {}

    def own_of(self, n_heads: int, d_model: int, d_head: int) -> dict[str, Tensor]:
        """The same, of a rule whose parameters read the residual stream or write to it."""
        return self.own(n_heads, d_head)

    def draw(self, own: Own, generator: torch.Generator) -> None:
        """Draw starting values of such parameters, in place, for rules that start at random ones; most do not."""

    @property
    def takes_turns(self) -> bool:
        """Whether updates differ from one another: `drawn` and `trains` then say how."""
        return False

    def drawn(self, step: int, n: int, random: torch.Generator) -> dict[str, Tensor]:
        """What is drawn for the update after `step` others of n sequences, such as heads to leave out, for one layer.

        It stands among the layer's own parameters while the update is computed, and at no other time.
        """
        return {}

    def trains(self, weight: str, step: int) -> bool:
        """Whether the update after `step` others trains a weight of the model, by its name."""
        return True

    def masked(self, mask: Mask, tokens: Shaped[Tensor, "batch position ..."], n_heads: int) -> Mask:
        """The mask for some sequences, of a rule that reads tokens: it broadcasts to (batch, head, query, key)."""
        return mask

    def values(self, v: Heads, x: Stream, bias: Float[Tensor, "head d_head"], own: Own) -> Heads:
        """The values, of a rule that makes them otherwise than by one matrix.

        Args:
            v: the layer's, x W_V + `bias`.
            x: the residual stream as the layer reads it.
            bias: of values.
            own: the layer's own parameters.
        """
        return v

    def read_out(self, z: Results, x: Stream, weight: Output, own: Own) -> tuple[Tensor, Tensor]:
        """What is written to the stream: results of heads, or parts of them, and as many output matrices.

        Args:
            z: each head's result.
            x: the residual stream as the layer read it.
            weight: the layer's output matrices.
            own: the layer's own parameters.
        """
        return z, weight

    @abstractmethod
    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        """The pattern and the values that it mixes.

        Args:
            q: queries, as the positions' variant leaves them; so `k`, keys, and `v`, values. Queries may be fewer than
                keys, the last layer's being asked where they are read only; `mask` has a row for each.
            mask: is added to scores: −inf where attention is not allowed, else 0, or what positions add.
            own: the layer's own parameters, named as by the method `own`.
        """
