"""Name the algorithms of a circuit: the schedules that it contains, by how they merge facts and at which positions.

By the flow of information (`hopscope.theory.flow`) an answer of D hops is composed of the query and D facts, two parts
at a time: a binary tree of merges with D + 1 leaves. Its height distinguishes the algorithms:

- `linear`: D merges, one hop after the other, as Musat (ICLR 2025, section 8) describes Transformers A to C;
- `doubling`: ⌈log2(D+1)⌉ merges, the fewest possible, as in pointer doubling;
- `mixed`: a number in between.

Up to two hops the first two coincide and are called `either`. Joining the two tokens of one fact is not a merge.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from hopscope.problem.paths import Path, place_of
from hopscope.theory.depth import chain_of
from hopscope.theory.flow import Chain, Interval, hull, meet, pruned, simulate, without_spare

Kind = Literal["linear", "doubling", "mixed", "either"]
Side = Literal["query", "chain", "both"]

#: The search of a circuit ends after so many schedules or tried sets of paths; most circuits have a few schedules. The
#: first one found is of least height, so a circuit with more than that is still named by a schedule of least height.
MOST_SCHEDULES, MOST_TRIED = 2000, 20_000


@dataclass(frozen=True)
class Named:
    """One schedule that a circuit contains.

    Attributes:
        kind: the algorithm, by the height of the tree of merges.
        side: where facts are merged: only at the `query`; in the `chain`, whose facts gather everything before the
            query reads it once; or at `both`.
        height: the height of the tree of merges.
        reads: merges at the query.
        ahead: merges at facts, before the query reads them.
        paths: the schedule; none can be removed.
    """

    kind: Kind
    side: Side
    height: int
    reads: int
    ahead: int
    paths: tuple[Path, ...]

    @property
    def name(self) -> str:
        """For example `linear, by the query`."""
        return f"{self.kind}, by {'both' if self.side == 'both' else f'the {self.side}'}"


def schedules_of(paths: Sequence[Path], hops: int) -> list[Named]:
    """The minimal schedules within a circuit, named, the lowest tree first. No path of a minimal one can be removed.

    The list is complete unless the search reaches `MOST_SCHEDULES` or `MOST_TRIED`.

    Args:
        paths: of the circuit. Paths between chains and paths without a shared piece move nothing. No mask is applied,
            because a circuit has no masked paths.
        hops: D.

    Returns:
        An empty list if the circuit does not bring the query its answer by the flow of information.

    Raises:
        BadInput: a path names a role that a chain of `hops` does not have.
    """
    chain = chain_of(hops, "none", "nearest_first")
    schedules = [named(chain, schedule) for schedule in minimal_schedules(chain, paths)]
    return sorted(schedules, key=lambda one: (one.height, one.reads, one.paths))


def minimal_schedules(chain: Chain, paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Every subset that brings the query the answer and none of whose paths can be removed; at most `MOST_SCHEDULES`.

    A schedule that is not found yet lacks at least one path of each that is found (Reiter, 1987, hitting sets). So one
    path of each found schedule is removed, in all combinations, until the rest does not solve the chain.
    """
    whole = frozenset(path for path in paths if path.chain == "same")
    if not simulate(chain, whole).solves:
        return
    found: list[frozenset[Path]] = []
    open_sets, seen = deque([frozenset[Path]()]), {frozenset[Path]()}
    while open_sets and len(found) < MOST_SCHEDULES and len(seen) < MOST_TRIED:
        removed = open_sets.popleft()
        schedule = next((one for one in found if one.isdisjoint(removed)), None)
        if schedule is None:
            if not simulate(chain, whole - removed).solves:
                continue
            schedule = frozenset(without_spare(chain, flattest(chain, sorted(whole - removed))))
            found.append(schedule)
            yield tuple(sorted(schedule))
        new = [less for path in sorted(schedule) if (less := removed | {path}) not in seen]
        open_sets += new
        seen.update(new)


def flattest(chain: Chain, paths: Sequence[Path]) -> list[Path]:
    """A minimal subset of paths whose tree of merges is as low as that of all paths."""
    least = height(chain, paths)
    return pruned(paths, lambda fewer: simulate(chain, fewer).solves and height(chain, fewer) == least)


def named(chain: Chain, schedule: tuple[Path, ...]) -> Named:
    """A schedule with its name, by its tree of merges."""
    merges = [path for path in schedule if not joins_a_fact(path)]
    reads = sum(path.query == "query" for path in merges)
    merges_in_a_row, ahead = height(chain, schedule), len(merges) - reads
    side: Side = "query" if not ahead else "chain" if reads == 1 else "both"
    return Named(kind_of(merges_in_a_row, chain.hops), side, merges_in_a_row, reads, ahead, schedule)


def kind_of(height: int, hops: int) -> Kind:
    """The name of a tree of merges by its height, from ⌈log2(hops + 1)⌉ (balanced) to `hops` (a line)."""
    flattest = hops.bit_length()  # ⌈log2(hops + 1)⌉
    if flattest == hops:
        return "either" if height <= hops else "linear"
    return "linear" if height >= hops else "doubling" if height == flattest else "mixed"


def joins_a_fact(path: Path) -> bool:
    """Whether a path connects the two tokens of one fact."""
    query, key = place_of(path.query), place_of(path.key)
    return query > 0 < key and (query + 1) // 2 == (key + 1) // 2


def height(chain: Chain, schedule: Sequence[Path]) -> int:
    """The least height of a tree of merges by which these paths bring the query all pieces of the chain.

    Dynamic programming over layers: for every position and every interval of pieces that it can hold, the least height
    so far. A path joins an interval of its query with an interval of its key if the two share a piece.
    """
    held = [parts({start: 0}) for start in chain.start()]
    for _, layer in groupby(sorted(schedule), key=lambda path: path.layer):
        before = [dict(intervals) for intervals in held]
        for path in layer:
            query, key = place_of(path.query), place_of(path.key)
            joined: dict[Interval, int] = defaultdict(lambda: len(schedule))
            for own, own_height in held[query].items():
                for other, other_height in before[key].items():
                    if meet(own, other):
                        both = hull(own, other)
                        merged = max(own_height, other_height) + (not joins_a_fact(path))
                        joined[both] = min(joined[both], merged)
            held[query] = parts({**joined, **{i: min(h, joined[i]) for i, h in held[query].items()}})
    return held[0][0, chain.last]


def parts(intervals: dict[Interval, int]) -> dict[Interval, int]:
    """All sub-intervals of intervals with their least heights: a position that holds an interval holds its parts."""
    heights: dict[Interval, int] = {}
    for (low, high), whole in intervals.items():
        for start in range(low, high + 1):
            for end in range(start, high + 1):
                heights[start, end] = min(heights.get((start, end), whole), whole)
    return heights
