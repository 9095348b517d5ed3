"""How much a factor explains of a circuit's class: conditional mutual information, compared with shuffled labels.

The mutual information of few samples is above 0 by chance alone. So labels are shuffled among models that agree in all
other factors. This gives the value expected by chance, and the probability that chance gives as much as was found
(Vinh, Epps & Bailey, 2010, JMLR 11, adjust for chance in the same way).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log

import numpy

SHUFFLES = 999


@dataclass(frozen=True)
class Explained:
    """How much a factor explains of the label, all else equal.

    Attributes:
        share: the share of the label's entropy that is explained, adjusted for chance: 0 for as much as with shuffled
            labels, 1 for all of it.
        chance: probability that shuffled labels give at least as much.
        contrary: probability that they give at most as much.
    """

    share: float
    chance: float
    contrary: float


def explained(
    labels: Sequence[Hashable], factor: Sequence[Hashable], alike: Sequence[Hashable], seed: int = 0
) -> Explained | None:
    """How much of the labels a factor explains among comparable samples; None if there is no entropy beyond chance.

    Args:
        labels: one per sample.
        factor: its value in each.
        alike: the group of each sample; samples are compared and shuffled within groups.
        seed: the seed of the shuffles.
    """
    among = [[i for i, value in enumerate(alike) if value == one] for one in dict.fromkeys(alike)]
    among = [part for part in among if len({factor[i] for i in part}) > 1]
    uncertain = sum(entropy([labels[i] for i in part]) for part in among)
    found = shared(labels, factor, among)
    generator = numpy.random.default_rng(seed)
    by_chance = numpy.array([shared(shuffled(labels, among, generator), factor, among) for _ in range(SHUFFLES)])
    if uncertain - by_chance.mean() < 1e-9:
        return None
    share = (found - by_chance.mean()) / (uncertain - by_chance.mean())
    as_much = 1 + int((by_chance >= found - 1e-9).sum())
    as_little = 1 + int((by_chance <= found + 1e-9).sum())
    return Explained(float(share), as_much / (SHUFFLES + 1), as_little / (SHUFFLES + 1))


def shuffled(
    labels: Sequence[Hashable], among: Sequence[Sequence[int]], generator: numpy.random.Generator
) -> list[Hashable]:
    """The labels, permuted within each group."""
    dealt = list(labels)
    for part in among:
        for place, source in zip(part, generator.permutation(part), strict=True):
            dealt[place] = labels[source]
    return dealt


def shared(labels: Sequence[Hashable], factor: Sequence[Hashable], among: Sequence[Sequence[int]]) -> float:
    """Mutual information of factor and labels in nats, times the number of samples, summed over the groups."""
    total = 0.0
    for part in among:
        total += entropy([labels[i] for i in part])
        for value in {factor[i] for i in part}:
            total -= entropy([labels[i] for i in part if factor[i] == value])
    return total


def entropy(labels: Sequence[Hashable]) -> float:
    """The entropy of the labels' frequencies in nats, times the number of labels."""
    return sum(n * log(len(labels) / n) for n in Counter(labels).values())
