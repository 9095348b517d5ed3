"""Lag-CRP of heads and of a model's answers on a list that is shown twice (Mistry et al., 2025; methods: our reading).

A list of different tokens is followed by the same tokens in another order. At each token of the second pass we ask
which token of the list is likely to come next. The probability of the token `lag` places after the present token's
place in the first pass is summed over positions, and divided by how often there is such a token. This corrects for
availability: without it an even recaller would seem to prefer short lags.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.measures.lag_attention import by_lag
from hopscope.models.base import Replacements
from hopscope.models.transformer import Transformer

GREATEST = 8


class Lists(NamedTuple):
    """Lists shown twice.

    Attributes:
        first: the list, whose tokens differ.
        order: for each token of the second pass, its position in the list.
    """

    first: Int[Tensor, "batch place"]
    order: Int[Tensor, "batch place"]

    @property
    def inputs(self) -> Int[Tensor, "batch position"]:
        """Both passes, one after the other."""
        return torch.cat([self.first, self.first.gather(1, self.order)], 1)


def lists(n: int, length: int, d_vocab: int, random: torch.Generator, shuffled: bool = True) -> Lists:
    """Draw n lists; the second pass is in another order, or in the same one."""
    first = torch.rand(n, d_vocab, generator=random).argsort(1)[:, :length]
    order = torch.rand(n, length, generator=random).argsort(1) if shuffled else torch.arange(length).expand(n, -1)
    return Lists(first, order)


def response_by_lag(
    probabilities: Float[Tensor, "batch place token"], shown: Lists, greatest: int = GREATEST
) -> dict[int, float]:
    """Probability per available token, by lag, relative to the mean over lags; 1 everywhere if recall is even.

    Args:
        probabilities: of the next token at every position of the second pass.
        shown: the lists.
        greatest: the greatest lag on either side; lag 0, the token itself, is left out.
    """
    of_place = probabilities.gather(2, shown.first[:, None].expand(-1, shown.order.shape[1], -1))  # batch place place
    places = torch.arange(shown.first.shape[1])
    lag = places - shown.order[..., None]
    found = {k: float(of_place[lag == k].mean()) for k in range(-greatest, greatest + 1) if k}
    total = sum(found.values()) / len(found)
    return {k: value / total for k, value in found.items()}


@torch.no_grad()
def answers(model: Transformer, shown: Lists, replace: Replacements | None = None) -> dict[int, float]:
    """The lag curve (CRP) of a model's answers on lists."""
    n = shown.first.shape[1]
    probabilities = model(shown.inputs, replace=replace)[:, n:].softmax(-1)
    return response_by_lag(probabilities, shown)


def contiguity(curve: dict[int, float]) -> float:
    """CRP at +1 over the mean at lags 2 to 5 on either side; 1 for even recall, ∞ if the latter is 0."""
    far = [curve[lag] for lag in curve if 2 <= abs(lag) <= 5]
    return curve[1] * len(far) / sum(far) if sum(far) else math.inf


def asymmetry(curve: dict[int, float]) -> float:
    """CRP at +1 minus CRP at −1, in units of the mean over lags; 0 if recall is even."""
    return curve[1] - curve[-1]


@torch.no_grad()
def heads_by_lag(model: Transformer, shown: Lists) -> dict[tuple[int, int], dict[int, float]]:
    """Every head's lag curve: attention from the second pass to the first, counted from the same token."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.architecture.n_layers)]
    cache = model(shown.inputs, cache=names)[1]
    n, length = shown.first.shape
    earlier = torch.zeros(n, 2 * length, 2 * length, dtype=torch.bool)
    rows = torch.arange(n)[:, None].expand(-1, length)
    earlier[rows, torch.arange(length, 2 * length).expand(n, -1), shown.order] = True
    return {
        (layer, head): by_lag(pattern, earlier, GREATEST)
        for layer in range(model.architecture.n_layers)
        for head, pattern in enumerate(cache["pattern", layer].unbind(1))
    }
