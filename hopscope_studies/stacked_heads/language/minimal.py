"""The fewest heads that keep the answer, all others attending by their mean pattern (after Wang et al., 2023).

Faithfulness is that of `hopscope_studies.stacked_heads.language.emptied`; above 1 a set does better than the model,
for some heads work against the answer. The level is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopscope.circuits.search import minimal
from hopscope.language.lens.ablation import Head

LEVEL = 0.8


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
