"""Estimates with 95 % intervals from a bootstrap over needles, and rank statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan

import torch
from pandas import Series
from torch import Tensor

DRAWS = 1000  # of every bootstrap

Number = dict[str, float]


def over_needles(of: Callable[[Tensor], Tensor], values: Tensor, needles: Sequence[int]) -> Number:
    """A statistic of means over prompts, with a cluster-bootstrap interval: needles are resampled with all prompts.

    Args:
        of: a function from means (draw …) to the statistic (draw).
        values: of the prompts; prompt ….
        needles: the needle of each prompt.

    Returns:
        `mean`, `low` and `high`.
    """
    groups = [[i for i, n in enumerate(needles) if n == needle] for needle in sorted(set(needles))]
    sums = torch.stack([values[group].double().sum(0) for group in groups])
    counts = torch.tensor([len(group) for group in groups]).double()
    rows = torch.randint(len(groups), (DRAWS, len(groups)), generator=torch.Generator().manual_seed(0))
    sizes = counts[rows].sum(1).view(-1, *[1] * (sums.dim() - 1))
    low, high = of(sums[rows].sum(1) / sizes).double().quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    return {"mean": float(of((sums.sum(0) / counts.sum())[None])), "low": low, "high": high}


def number(values: Tensor, of: Callable[[Tensor], Tensor] = lambda means: means) -> Number:
    """As `over_needles`, if every prompt has its own needle."""
    return over_needles(of, values, range(len(values)))


def mean_of(values: Tensor, needles: Sequence[int]) -> Number:
    """A mean over prompts, as `over_needles`."""
    return over_needles(lambda means: means, values, needles)


def estimate(values: Tensor) -> dict[str, float]:
    """The mean of one number per prompt, with its 95 % interval from the normal approximation."""
    mean, error = float(values.mean()), float(values.std() / len(values) ** 0.5)
    return {"mean": mean, "low": mean - 1.96 * error, "high": mean + 1.96 * error}


def spearman(a: Tensor, b: Tensor) -> float:
    """Spearman's rank correlation, −1 to 1; equal values share their mean rank; 0 if one of them is constant."""
    found = Series(a.flatten().tolist()).rank().corr(Series(b.flatten().tolist()).rank())
    return 0.0 if isnan(found) else float(found)


def agreement(a: Tensor, b: Tensor) -> Number:
    """Rank correlation over heads, −1 to 1, with a 95 % interval from a bootstrap over heads."""
    one, other = a.flatten(), b.flatten()
    rows = torch.randint(len(one), (DRAWS, len(one)), generator=torch.Generator().manual_seed(0))
    drawn = torch.tensor([spearman(one[row], other[row]) for row in rows])
    low, high = drawn.quantile(torch.tensor([0.025, 0.975])).tolist()
    return {"mean": spearman(one, other), "low": low, "high": high}


def beyond(values: Tensor, beside: Sequence[Tensor], needles: Sequence[int]) -> Number:
    """A loss minus the highest loss of random sets, which is chosen anew in every bootstrap sample of needles.

    Args:
        values: a loss per prompt.
        beside: the losses of random sets, each per prompt.
        needles: the needle of each prompt.
    """
    stacked = torch.stack([values, *beside], 1)
    return over_needles(lambda means: means[:, 0] - means[:, 1:].max(1).values, stacked, needles)
