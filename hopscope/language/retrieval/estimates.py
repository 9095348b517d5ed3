"""Numbers with 95 % intervals by resampling needles, and what does not need one: ranks, permutations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

DRAWS = 1000  # of every bootstrap
PERMUTATIONS = 5000

Number = dict[str, float]


def over_needles(of: Callable[[Tensor], Tensor], values: Tensor, needles: Sequence[int], seed: int = 0) -> Number:
    """A statistic of means over asks, with its interval: whole needles are drawn anew, each with all its asks.

    Args:
        of: given means, draw …, returns numbers; draw.
        values: of the asks; ask ….
        needles: each ask's needle.
        seed: of the draws.
    """
    groups = [[i for i, n in enumerate(needles) if n == needle] for needle in sorted(set(needles))]
    sums = torch.stack([values[group].double().sum(0) for group in groups])
    counts = torch.tensor([len(group) for group in groups]).double()
    rows = torch.randint(len(groups), (DRAWS, len(groups)), generator=torch.Generator().manual_seed(seed))
    sizes = counts[rows].sum(1).view(-1, *[1] * (sums.dim() - 1))
    low, high = of(sums[rows].sum(1) / sizes).double().quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    return {"mean": float(of((sums.sum(0) / counts.sum())[None])), "low": low, "high": high}


def mean_of(values: Tensor, needles: Sequence[int]) -> Number:
    """A mean over asks."""
    return over_needles(lambda means: means, values, needles)


def ranks(values: Tensor) -> Tensor:
    """Ranks from 0, equal values sharing their mean rank."""
    order = values.double().flatten()
    below = (order[:, None] > order[None]).sum(1).double()
    return below + ((order[:, None] == order[None]).sum(1).double() - 1) / 2


def spearman(a: Tensor, b: Tensor) -> float:
    """Rank correlation, −1 to 1; 0 where one of them is constant."""
    x, y = (one - one.mean() for one in (ranks(a), ranks(b)))
    scale = (x.square().sum() * y.square().sum()).sqrt()
    return float((x * y).sum() / scale) if scale > 0 else 0.0


def agreement(a: Tensor, b: Tensor, seed: int = 0) -> Number:
    """Rank correlation over heads, with its interval by drawing heads anew."""
    one, other = a.flatten(), b.flatten()
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(one), (DRAWS, len(one)), generator=generator)
    found = torch.tensor([spearman(one[row], other[row]) for row in rows])
    low, high = found.quantile(torch.tensor([0.025, 0.975])).tolist()
    return {"mean": spearman(one, other), "low": low, "high": high}


def by_group(values: Tensor, groups: Sequence[float], seed: int = 0) -> float:
    """How likely chance is to make groups differ as much: share of permutations whose group means vary as much.

    Args:
        values: one per ask.
        groups: each ask's group.
        seed: of the permutations.
    """
    names = sorted(set(groups))
    members = torch.tensor([[float(group == name) for group in groups] for name in names])
    generator = torch.Generator().manual_seed(seed)
    mixed = values[torch.rand(PERMUTATIONS, len(values), generator=generator).argsort(1)]
    sizes = members.sum(1)

    def between(rows: Tensor) -> Tensor:
        means = rows @ members.T / sizes
        return ((means - rows.mean(1, keepdim=True)).square() * sizes).sum(1)

    there = between(values[None])
    return (1 + int((between(mixed) >= there - 1e-6).sum())) / (1 + PERMUTATIONS)
