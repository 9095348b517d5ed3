"""Minimal sets that pass a test, found with few tests: QuickXplain (Junker, 2004) and hitting-set trees (Reiter, 1987).

Both algorithms assume a monotone test, in which every superset of a passing set passes, too. Tests of losses are nearly
monotone. Where they are not, a set that is found still passes but may not be minimal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)
Test = Callable[[frozenset[T]], bool]
Minimise = Callable[[Sequence[T], Test[T], frozenset[T]], frozenset[T]]


def minimal(units: Sequence[T], passes: Test[T], always: Iterable[T] = ()) -> frozenset[T]:
    """A subset of the units that passes (together with `always`) and from which nothing can be left out: QuickXplain.

    Args:
        units: in order of preference, those to keep first; all together (with `always`) they must pass.
        passes: the test.
        always: units that are present in every test and are not part of the result.
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
    """The length of a prefix that passes, found by doubling and bisection; the full length if none passes.

    If the test is monotone, no shorter prefix passes.
    """
    high = 1
    while high < len(order) and not passes(frozenset(order[:high])):
        high = min(2 * high, len(order))
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(frozenset(order[:middle])) else (middle, high)
    return high


def nearest(units: Sequence[T], passes: Test[T], near: frozenset[T]) -> frozenset[T]:
    """A minimal passing subset close to the set `near`.

    A minimal set of further units that passes together with `near` is found first. Then the two sets are minimised
    together, so that units of `near` that the further ones make superfluous are left out.
    """
    fixed = [unit for unit in units if unit in near]
    further = minimal([unit for unit in units if unit not in near], passes, fixed)
    return minimal([*fixed, *(unit for unit in units if unit in further)], passes)


def all_minimal(
    units: Sequence[T],
    passes: Test[T],
    limit: int = 16,
    minimise: Minimise[T] = nearest,
    needed: Callable[[frozenset[T]], Iterable[T]] = lambda found: found,
) -> tuple[list[frozenset[T]], bool]:
    """All minimal passing subsets, in the order found, and whether the search ran to its end.

    Every other minimal set lacks at least one unit of a set that is known. So each unit of a known set is forbidden in
    turn, and the search begins anew among the remaining units.

    Args:
        units: in order of preference, those to keep first.
        passes: the test.
        limit: the search stops after this many sets.
        minimise: finds a minimal set among units that pass, close to a known set (its third argument) if it can.
        needed: the units of a set that are forbidden in turn; by default all, and then no set is missed.
    """
    found: list[frozenset[T]] = []
    tried: set[frozenset[T]] = set()
    open_nodes: list[tuple[frozenset[T], frozenset[T]]] = [(frozenset(), frozenset())]
    while open_nodes and len(found) < limit:
        forbidden, near = open_nodes.pop(0)
        known = next((s for s in found if not s & forbidden), None)  # a set already found may serve this node, too
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
