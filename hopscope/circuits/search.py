"""Smallest sets that suffice, with few tests: QuickXplain, and the hitting-set tree (Junker, 2004; Reiter, 1987).

Both are about any test of sets that supersets of a passing set pass too. Losses nearly obey that; where they do not, a
set that is found still passes, and may not be minimal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
Test = Callable[[frozenset[T]], bool]
Minimise = Callable[[Sequence[T], Test[T], frozenset[T]], frozenset[T]]


def minimal(units: Sequence[T], passes: Test[T], always: Iterable[T] = ()) -> frozenset[T]:
    """A subset of the units that passes (together with `always`) and from which nothing can be left out.

    Args:
        units: those that are rather kept, first; all together they must pass.
        passes: the test.
        always: units that are kept in any case.
    """
    fixed = frozenset(always)

    def explain(background: frozenset[T], grown: bool, candidates: Sequence[T]) -> frozenset[T]:
        if grown and passes(background):
            return frozenset()
        if len(candidates) == 1:
            return frozenset(candidates)
        half = (len(candidates) + 1) // 2
        first, second = candidates[:half], candidates[half:]
        from_second = explain(background | set(first), True, second)
        from_first = explain(background | from_second, bool(from_second), first)
        return from_first | from_second

    return explain(fixed, True, units) if units else frozenset()


def shortest(order: Sequence[T], passes: Test[T]) -> int:
    """A size at which the beginnings of an order come to pass, by doubling and halving; all, if none passes."""
    high = 1
    while high < len(order) and not passes(frozenset(order[:high])):
        high = min(2 * high, len(order))
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(frozenset(order[:middle])) else (middle, high)
    return high


def nearest(units: Sequence[T], passes: Test[T], near: frozenset[T]) -> frozenset[T]:
    """A minimal passing subset that takes few units beside given ones: first those, then what can be spared."""
    fixed = [unit for unit in units if unit in near]
    beside = minimal([unit for unit in units if unit not in near], passes, fixed)
    return minimal([*fixed, *(unit for unit in units if unit in beside)], passes)


def all_minimal(
    units: Sequence[T],
    passes: Test[T],
    limit: int = 16,
    minimise: Minimise[T] = nearest,
    needed: Callable[[frozenset[T]], Iterable[T]] = lambda found: found,
) -> tuple[list[frozenset[T]], bool]:
    """All minimal passing subsets, in the order found, and whether the search for more came to its end.

    For each set found, each of its units is forbidden in turn and the search begins anew among the others: every other
    minimal set lacks at least one of them.

    Args:
        units: those that are rather kept, first.
        passes: the test.
        limit: at most so many sets.
        minimise: finds one minimal set among units that pass, the nearer to a known one the better.
        needed: which units of a set are forbidden; by default all, and then no set is missed.
    """
    found: list[frozenset[T]] = []
    tried: set[frozenset[T]] = set()
    open_nodes: list[tuple[frozenset[T], frozenset[T]]] = [(frozenset(), frozenset())]
    while open_nodes and len(found) < limit:
        forbidden, near = open_nodes.pop(0)
        known = next((s for s in found if not s & forbidden), None)
        if known is None:
            left = [unit for unit in units if unit not in forbidden]
            if not passes(frozenset(left)):
                continue
            known = minimise(left, passes, near - forbidden)
            found.append(known)
        for unit in sorted(needed(known), key=str):
            branch = forbidden | {unit}
            if branch not in tried:
                tried.add(branch)
                open_nodes.append((branch, known))
    return found, not open_nodes
