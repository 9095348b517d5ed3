"""The fewest heads that keep the answer, all others attending by their mean pattern (after Wang et al., 2023).

Faithfulness is the share of the metric's gap, from all heads at their mean pattern to the model as it is, that a set
of heads keeps; above 1 the set does better than the model, for some heads work against the answer. The level is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.circuits.search import minimal
from hopscope.language.lens.ablation import Head, Steady
from hopscope.language.lens.attention import Lens
from hopscope_studies.stacked_heads.language.role_paths import Base

LEVEL = 0.8
DRAWS = 1000  # bootstrap resamples of the prompts


class OutOfTests(Exception):
    """The search has used up its tests; what was found so far stands."""


@dataclass(frozen=True)
class Minimal:
    """A set of heads that keeps the metric.

    Attributes:
        heads: in order of layer and head; empty if none was found.
        prefix: how many heads, the best first by attribution, passed before the search for fewer.
        tests: how many sets were tried.
        finished: whether no head can be left out of the set, by the test on the prompts of the search.
    """

    heads: tuple[Head, ...]
    prefix: int
    tests: int
    finished: bool


@dataclass(frozen=True)
class Emptied:
    """Prompts with every head at its mean pattern; a set of heads is let go from its lowest layer on.

    Attributes:
        full: the model as it is.
        patterns: the mean patterns; layer head query key.
        streams: the residual stream before each layer with every head at its mean pattern.
        odds: the metric then; prompt.
    """

    full: Base
    patterns: Tensor
    streams: list[Tensor]
    odds: Tensor

    def odds_keeping(self, lens: Lens, heads: Collection[Head]) -> Tensor:
        """The metric with all heads but these at their mean pattern; prompt."""
        if not heads:
            return self.odds
        kept, start = set(heads), min(layer for layer, _ in heads)
        edit = Steady([head for head in lens.heads if head not in kept], self.patterns)
        with torch.no_grad():
            return self.full.prompts.log_odds(lens.run(self.streams[start], edit, start=start))

    def faithfulness(self, odds: Tensor) -> float:
        """(m(set) − m(none)) / (m(all) − m(none)), of means over prompts."""
        return float((odds.mean() - self.odds.mean()) / (self.full.odds.mean() - self.odds.mean()))

    def interval(self, odds: Tensor, seed: int) -> tuple[float, float]:
        """95 % of the faithfulness under resampling of the prompts."""
        rows = torch.randint(len(odds), (DRAWS, len(odds)), generator=torch.Generator().manual_seed(seed))
        means = [values[rows].mean(1) for values in (odds, self.odds, self.full.odds)]
        ratios = (means[0] - means[1]) / (means[2] - means[1])
        low, high = ratios.quantile(torch.tensor([0.025, 0.975])).tolist()
        return low, high


def emptied(lens: Lens, full: Base, patterns: Tensor) -> Emptied:
    """Every head at its mean pattern."""
    with torch.no_grad():
        streams, logits = lens.streams(full.prompts.ids, Steady(lens.heads, patterns))
    return Emptied(full, patterns, streams, full.prompts.log_odds(logits))


def search(
    order: Sequence[Head], keeps: Callable[[frozenset[Head]], float], most_tests: int, level: float = LEVEL
) -> Minimal:
    """A minimal set of heads with faithfulness of at least `level`.

    The shortest passing beginning of the order is found by doubling and halving, then QuickXplain leaves out what it
    can. If the tests run out, the smallest set that has passed is the result.

    Args:
        order: heads, the likeliest to be needed first.
        keeps: the faithfulness of a set.
        most_tests: so many sets are tried at most.
        level: what a set must keep.
    """
    tried: dict[frozenset[Head], bool] = {}

    def passes(heads: frozenset[Head]) -> bool:
        if heads not in tried:
            if len(tried) >= most_tests:
                raise OutOfTests
            tried[heads] = keeps(heads) >= level
        return tried[heads]

    prefix, finished = 0, False
    try:
        prefix = shortest_beginning(order, passes)
        if prefix:
            found = minimal(order[:prefix], passes)
            finished = passes(found)  # losses are not quite monotonic: the result is tested again
    except OutOfTests:
        pass
    passed = [heads for heads, good in tried.items() if good]
    smallest = min(passed, key=len, default=frozenset())
    return Minimal(tuple(sorted(smallest)), prefix, len(tried), finished)


def shortest_beginning(order: Sequence[Head], passes: Callable[[frozenset[Head]], bool]) -> int:
    """Length of a beginning that passes while the next shorter that was tried does not; 0 if none passes."""
    low, high = 0, 8
    while not passes(frozenset(order[: min(high, len(order))])):
        if high >= len(order):
            return 0
        low, high = high, 2 * high
    high = min(high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        if passes(frozenset(order[:middle])):
            high = middle
        else:
            low = middle
    return high
