"""The interface of attention variants. Projections, position codes and names of activations belong to the layer."""

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
#: The parameters that a variant adds to a layer, by name.
Own = Mapping[str, Tensor] | nn.ParameterDict


@dataclass(frozen=True)
class Attention(Variant, ABC):
    """A rule of attention with its settings: a frozen dataclass, one per file, written `name(setting=value)`.

    A head's output is `pattern @ values`, so replacing the pattern replaces the mechanism.
    """

    #: Whether each row of the pattern is a probability distribution over the positions that the mask allows.
    normalised: ClassVar[bool] = True
    #: Whether the mask depends on the tokens; `masked` then computes it.
    reads_tokens: ClassVar[bool] = False
    #: Whether `attend` returns the values unchanged, so that it can be skipped if the pattern is given.
    keeps_values: ClassVar[bool] = False
    #: Whether the output at a position depends only on the heads' results and the residual stream at that position.
    writes_locally: ClassVar[bool] = True
    #: Whether it is a recurrence, which needs a causal mask.
    recurrent: ClassVar[bool] = False
    #: Whether keys and values also include the previous position: `hopscope.theory.shifted` then gives the exact
    #: depths, otherwise `hopscope.theory.depth`. None: no exact depths are known.
    shifted: ClassVar[bool | None] = False

    def own(self, n_heads: int, d_head: int) -> dict[str, Tensor]:
        """The initial values of parameters that the rule adds to each layer; most rules have none.

        A parameter whose name starts with `W_` is initialised like all weights (`Transformer.initialise`).
        """
        return {}

    def own_of(self, n_heads: int, d_model: int, d_head: int) -> dict[str, Tensor]:
        """As `own`, for a rule whose parameters read from the residual stream or write to it."""
        return self.own(n_heads, d_head)

    def draw(self, own: Own, generator: torch.Generator) -> None:
        """Draw initial values of these parameters in place, for rules with random ones; most have none."""

    @property
    def takes_turns(self) -> bool:
        """Whether it alternates between kinds of updates, as `drawn` and `trains` define."""
        return False

    def drawn(self, step: int, n: int, random: torch.Generator) -> dict[str, Tensor]:
        """Random tensors of one layer for an update of n sequences, for example heads to leave out.

        They are among the layer's own parameters only during the update. `step` counts the updates before it.
        """
        return {}

    def trains(self, weight: str, step: int) -> bool:
        """Whether the update after the first `step` updates trains the weight of this name."""
        return True

    def masked(self, mask: Mask, tokens: Shaped[Tensor, "batch position ..."], n_heads: int) -> Mask:
        """The mask of a rule that reads tokens, for given sequences; it broadcasts to (batch, head, query, key)."""
        return mask

    def bias(self, mask: Mask, x: Stream, own: Own) -> Mask:
        """The mask, plus a bias of the scores if it depends on the layer's input; arguments as in `values`."""
        return mask

    def queries_and_keys(self, q: Heads, k: Heads, x: Stream, own: Own) -> tuple[Heads, Heads]:
        """Queries and keys, for a rule that does not compute each with one matrix; arguments as in `values`."""
        return q, k

    def values(self, v: Heads, x: Stream, bias: Float[Tensor, "head d_head"], own: Own) -> Heads:
        """The values, for a rule that does not compute them with one matrix.

        Args:
            v: the layer's values, x W_V + `bias`.
            x: the input of the layer, normalised if the model has LayerNorm.
            bias: what is added to the values.
            own: the parameters that the rule adds to the layer.
        """
        return v

    def read_out(self, z: Results, x: Stream, weight: Output, own: Own) -> tuple[Tensor, Tensor]:
        """What the layer writes to the residual stream: results of heads, or parts of them, each with a matrix.

        Args:
            z: each head's result, pattern times values.
            x: the input of the layer, normalised if the model has LayerNorm.
            weight: the layer's output matrices.
            own: the parameters that the rule adds to the layer.
        """
        return z, weight

    @abstractmethod
    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        """The pattern, and the values that it is multiplied with.

        Args:
            q: queries with position codes applied. There may be fewer queries than keys, because the last layer is
                only computed at positions that are read off.
            k: keys with position codes applied.
            v: values.
            mask: is added to scores: −inf where attention is not allowed, otherwise 0 or the bias of a position code;
                one row per query.
            own: the parameters that the rule adds to the layer, named as in the method `own`.
        """
