"""Which algorithm a circuit is: the schedules that it realises, each named by how it merges facts, and who does it.

By the flow of information (`hopscope.theory.flow`) an answer of D hops is made of the query and D facts, merged two
parts at a time: a tree with D + 1 leaves. Its height, in merges one after the other, is what tells algorithms apart:

- `linear`: D of them, one hop after the other, as Musat (ICLR 2025, section 8) describes Transformers A to C;
- `doubling`: ⌈log2(D+1)⌉, the fewest that there can be, as pointer doubling does it;
- `mixed`: something between.

Up to two hops the first two are the same, and are called `either`. That a fact's own two tokens are joined is no merge.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from hopscope.problem.paths import Path, place_of
from hopscope.theory.depth import chain_of
from hopscope.theory.flow import Chain, Interval, hull, meet, simulate, without_spare

Kind = Literal["linear", "doubling", "mixed", "either"]
Side = Literal["query", "chain", "both"]

#: Schedules within one circuit, and sets of paths that are tried to find them, before the search ends; most circuits
#: have a handful. The first is flat, so that the name of a circuit with more is that of a flat one.
MOST_SCHEDULES, MOST_TRIED = 2000, 20_000


@dataclass(frozen=True)
class Named:
    """One schedule that a circuit realises.

    Attributes:
        kind: by the height of its tree of merges.
        side: who merges: the `query` alone; the `chain`, whose facts gather everything before the query reads it at
            once; or `both`.
        height: merges that come one after the other.
        reads: merges by the query.
        ahead: merges by facts, ahead of the query.
        paths: of the schedule; none can be left out.
    """

    kind: Kind
    side: Side
    height: int
    reads: int
    ahead: int
    paths: tuple[Path, ...]

    @property
    def name(self) -> str:
        """Such as `linear, by the query`."""
        return f"{self.kind}, by {'both' if self.side == 'both' else f'the {self.side}'}"


def schedules_of(paths: Sequence[Path], hops: int) -> list[Named]:
    """The schedules within a circuit from which no path can be left out, named; the flattest first.

    They are all there are, in a circuit of up to 2,000 that are found in 20,000 attempts.

    Args:
        paths: of the circuit; those between chains and those without a shared piece move nothing. What a mask hides is
            not asked: a circuit has no such paths.
        hops: D.

    Returns:
        None if by the flow of information the circuit does not bring the query its answer.

    Raises:
        BadInput: a role that a chain of so many hops lacks.
    """
    chain = chain_of(hops, "none", "nearest_first")
    found = [named(chain, schedule) for schedule in minimal_schedules(chain, paths)]
    return sorted(found, key=lambda one: (one.height, one.reads, one.paths))


def minimal_schedules(chain: Chain, paths: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Every subset that brings the query the answer, and none of whose paths can be left out; at most `MOST_SCHEDULES`.

    One that is not known yet lacks some path of each that is (Reiter, 1987): so the paths of known ones are left out,
    one of each, until nothing is left that solves.
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
            schedule = frozenset(without_spare(chain, sorted(flattest(chain, whole - removed))))
            found.append(schedule)
            yield tuple(sorted(schedule))
        new = [less for path in sorted(schedule) if (less := removed | {path}) not in seen]
        open_sets += new
        seen.update(new)


def flattest(chain: Chain, paths: frozenset[Path]) -> frozenset[Path]:
    """What is left of paths that solve if those are left out without which the answer comes by as few merges."""
    least, kept = height(chain, sorted(paths)), paths
    for path in sorted(paths, reverse=True):
        fewer = kept - {path}
        if simulate(chain, fewer).solves and height(chain, sorted(fewer)) == least:
            kept = fewer
    return kept


def named(chain: Chain, schedule: tuple[Path, ...]) -> Named:
    """A schedule by its tree of merges."""
    merges = [path for path in schedule if not joins_a_fact(path)]
    reads = sum(path.query == "query" for path in merges)
    tall, ahead = height(chain, schedule), len(merges) - reads
    side: Side = "query" if not ahead else "chain" if reads == 1 else "both"
    return Named(kind_of(tall, chain.hops), side, tall, reads, ahead, schedule)


def kind_of(height: int, hops: int) -> Kind:
    """The name of a tree of this height: `hops` is that of a line, the binary logarithm of its leaves the least."""
    flattest = hops.bit_length()  # ⌈log2(hops + 1)⌉
    if flattest == hops:
        return "either" if height <= hops else "linear"
    return "linear" if height >= hops else "doubling" if height == flattest else "mixed"


def joins_a_fact(path: Path) -> bool:
    """Whether a path leads from one token of a fact to its other one."""
    query, key = place_of(path.query), place_of(path.key)
    return query > 0 < key and (query + 1) // 2 == (key + 1) // 2


def height(chain: Chain, schedule: Sequence[Path]) -> int:
    """The fewest merges one after the other by which, along these paths, the query gets all pieces of the chain.

    For every position and every interval of pieces that it can hold, the fewest so far; a path joins a part that the
    one holds with a part that the other holds, where the two share a piece.
    """
    held = [parts({start: 0}) for start in chain.start()]
    for _, layer in groupby(sorted(schedule), key=lambda path: path.layer):
        before = [dict(intervals) for intervals in held]
        for path in layer:
            query, key = place_of(path.query), place_of(path.key)
            joined: dict[Interval, int] = defaultdict(lambda: len(schedule))
            for mine, my_height in held[query].items():
                for other, its_height in before[key].items():
                    if meet(mine, other):
                        both = hull(mine, other)
                        tall = max(my_height, its_height) + (not joins_a_fact(path))
                        joined[both] = min(joined[both], tall)
            held[query] = parts({**joined, **{i: min(h, joined[i]) for i, h in held[query].items()}})
    return held[0][0, chain.last]


def parts(intervals: dict[Interval, int]) -> dict[Interval, int]:
    """With all parts of these intervals: who holds a whole holds its parts, at no greater height."""
    found: dict[Interval, int] = {}
    for (low, high), tall in intervals.items():
        for start in range(low, high + 1):
            for end in range(start, high + 1):
                found[start, end] = min(found.get((start, end), tall), tall)
    return found
