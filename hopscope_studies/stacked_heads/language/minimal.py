"""The fewest heads that keep the answer, all others attending by their mean pattern (after Wang et al., 2023).

Faithfulness is that of `hopscope_studies.stacked_heads.language.emptied`. Above 1 a set does better than the model,
because some heads work against the answer. The level is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hopscope.circuits.search import minimal
from hopscope.language.lens.ablation import Head

LEVEL = 0.8


class OutOfTests(Exception):
    """Raised when the search has used up its tests; the smallest set found so far is kept."""


@dataclass(frozen=True)
class Minimal:
    """A set of heads that keeps the metric.

    Attributes:
        heads: in order of layer and head; empty if none was found.
        prefix: the number of heads, the best first by attribution, that passed before the search for fewer.
        tests: the number of sets that were tried.
        finished: whether no head can be left out of the set, by the test on the prompts of the search.
    """

    heads: tuple[Head, ...]
    prefix: int
    tests: int
    finished: bool


def search(order: Sequence[Head], keeps: Callable[[frozenset[Head]], float], most_tests: int) -> Minimal:
    """A minimal set of heads with faithfulness of at least `LEVEL`.

    The shortest passing prefix of the order is found by doubling and bisection, and then reduced by QuickXplain. If the
    tests run out, the result is the smallest set that has passed.

    Args:
        order: the heads, those most likely to be needed first.
        keeps: returns the faithfulness of a set.
        most_tests: the most sets that are tried.
    """
    tried: dict[frozenset[Head], bool] = {}

    def passes(heads: frozenset[Head]) -> bool:
        if heads not in tried:
            if len(tried) >= most_tests:
                raise OutOfTests
            tried[heads] = keeps(heads) >= LEVEL
        return tried[heads]

    prefix, finished = 0, False
    try:
        prefix = shortest_beginning(order, passes)
        if prefix:
            found = minimal(order[:prefix], passes)
            finished = passes(found)  # the metric is not quite monotonic in the set, so the result is tested again
    except OutOfTests:
        pass
    passed = [heads for heads, good in tried.items() if good]
    smallest = min(passed, key=len, default=frozenset())
    return Minimal(tuple(sorted(smallest)), prefix, len(tried), finished)


def shortest_beginning(order: Sequence[Head], passes: Callable[[frozenset[Head]], bool]) -> int:
    """The length of a prefix that passes although the next shorter one that was tried does not; 0 if none passes."""
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
