"""Information flow along a plain chain: what each position can hold after each layer (Musat, ICLR 2025, section 5).

The positions of a chain of D hops, in order of reachability from the query, are s_0 … s_2D: the query, then the first
and the second token of fact 1, of fact 2, and so on. Neighbours s_i and s_(i+1) share one piece of information e_i: a
symbol if i is even, the position of a fact if i is odd. So s_i starts with e_(i−1) and e_i, and s_0 with e_0.
(Appendix B writes e_i and e_(i+1), which is off by one by its own definition of e_i.)

Assumption 1: a position attends only to positions with which it shares a piece. Assumption 2: it then receives all
their pieces. So a position always holds an interval of pieces, and the chain is solved once s_0 holds e_2D.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path, place_of, role_name

#: The first and the last piece that a position holds.
Interval = tuple[int, int]
#: The interval of every position s_0 … s_2D.
Held = tuple[Interval, ...]

#: The longest supported chain: matrices over all pairs of its positions must fit into memory.
MOST_HOPS = 2048


@dataclass(frozen=True)
class Chain:
    """The positions of one chain.

    Attributes:
        hops: D, the number of facts.
        order: the steps, counted from 1, in the order of presentation. The second token of a fact follows its first;
            the query comes last.
        causal: whether a position may only attend to itself and to earlier positions.

    Raises:
        BadInput: `hops` is not from 1 to `MOST_HOPS`, or `order` is no permutation of 1 … D.
    """

    hops: int
    order: tuple[int, ...]
    causal: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.hops <= MOST_HOPS:
            raise BadInput(f"hops must be from 1 to {MOST_HOPS}; got {self.hops}")
        if sorted(self.order) != list(range(1, self.hops + 1)):
            raise BadInput(f"order must hold every step from 1 to {self.hops} once; got {list(self.order)}")

    @property
    def last(self) -> int:
        """2D: the index of the last position, and of the last piece, which is the answer."""
        return 2 * self.hops

    @cached_property
    def times(self) -> tuple[int, ...]:
        """The place of each position in the order of presentation, from 0."""
        times = {0: self.last}
        for n, k in enumerate(self.order):
            times |= {2 * k - 1: 2 * n, 2 * k: 2 * n + 1}
        return tuple(times[place] for place in range(self.last + 1))

    def start(self) -> Held:
        """What the positions hold before layer 0."""
        return tuple(map(self.start_of, range(self.last + 1)))

    def start_of(self, place: int) -> Interval:
        """What one position holds before layer 0: the pieces that it shares with its neighbours."""
        return max(0, place - 1), place

    def sees(self, query: int, key: int) -> bool:
        """Whether the mask allows the position `query` to attend to `key`."""
        return not self.causal or self.times[key] <= self.times[query]


def meet(one: Interval, other: Interval) -> bool:
    """Whether two intervals share a piece."""
    return one[0] <= other[1] and other[0] <= one[1]


def hull(one: Interval, other: Interval) -> Interval:
    """The smallest interval that contains both."""
    return min(one[0], other[0]), max(one[1], other[1])


def within(part: Interval, whole: Interval) -> bool:
    """Whether one interval lies inside another."""
    return whole[0] <= part[0] and part[1] <= whole[1]


# A given schedule -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flow:
    """The information flow of a list of paths.

    Attributes:
        held: what every position holds before layer 0, after layer 0, after layer 1 and so on.
        blind: paths whose positions share no piece, against assumption 1; they move nothing.
        masked: paths to positions that the mask hides; they move nothing either.
    """

    held: tuple[Held, ...]
    blind: tuple[Path, ...]
    masked: tuple[Path, ...]

    @property
    def solves(self) -> bool:
        """Whether the query holds the last piece in the end, which is the answer."""
        return self.held[-1][0][1] == len(self.held[-1]) - 1


def simulate(chain: Chain, paths: Iterable[Path], offered: Callable[[Held], Held] = lambda held: held) -> Flow:
    """Simulate the information flow along paths. All paths of a layer read the result of the layer before.

    Paths between different chains carry no piece of this chain and are ignored.

    Args:
        chain: the chain whose pieces are followed.
        paths: the schedule.
        offered: a function from what all positions hold to what each passes on when attended to; by default the same.

    Raises:
        BadInput: a path names a role that the chain does not have.
    """
    moves = sorted((p.layer, place(p.query, chain), place(p.key, chain), p) for p in paths if p.chain == "same")
    held, blind, masked = [chain.start()], [], []
    by_layer = {layer: list(group) for layer, group in itertools.groupby(moves, lambda move: move[0])}
    for layer in range(max(by_layer, default=-1) + 1):
        before, after, offers = held[-1], list(held[-1]), offered(held[-1])
        for _, query, key, path in by_layer.get(layer, ()):
            if not chain.sees(query, key):
                masked.append(path)
            elif not meet(before[query], offers[key]):
                blind.append(path)
            else:
                after[query] = hull(after[query], offers[key])
        held.append(tuple(after))
    return Flow(tuple(held), tuple(blind), tuple(masked))


def place(role: str, chain: Chain) -> int:
    """The index of a role's position in a chain. Raises BadInput if the chain is too short for it."""
    if (found := place_of(role)) > chain.last:
        raise BadInput(f"a chain of {chain.hops} hops has no {role}")
    return found


def without_spare(chain: Chain, paths: Sequence[Path]) -> list[Path]:
    """The schedule without superfluous paths: the rest still solves the chain."""
    return pruned(paths, lambda fewer: simulate(chain, fewer).solves)


def pruned(paths: Sequence[Path], suffice: Callable[[list[Path]], bool]) -> list[Path]:
    """Paths without superfluous ones: each is removed, last layers first, if the rest still suffices."""
    kept = list(paths)
    for path in sorted(paths, reverse=True):
        fewer = [other for other in kept if other != path]
        if suffice(fewer):
            kept = fewer
    return kept


# The best that any schedule can do ------------------------------------------------------------------------------------


def reach(chain: Chain, n_layers: int, offered: Callable[[Held], Held] = lambda held: held) -> list[Held]:
    """The most that every position can hold, before layer 0 and after each of `n_layers`, with any number of heads.

    `offered` is as for `simulate`; each position offers at least what it holds.

    Every position attends to all positions with which it shares a piece. The interval of s_i then extends to the left
    up to the smallest start among the visible intervals that end at or after its own start. Some of these may lie
    wholly to the right of s_i's interval, and share no piece with it; but then they start further right, and change
    nothing. The right side is the mirror image.

    Returns:
        `n_layers` + 1 entries, each with the interval of every position.
    """
    times = numpy.array(chain.times, dtype=numpy.int16)
    hidden = (times[None, :] > times[:, None]) & chain.causal
    held = [chain.start()]
    for _ in range(n_layers):
        low, high = numpy.array(held[-1], dtype=numpy.int16).T
        other_low, other_high = numpy.array(offered(held[-1]), dtype=numpy.int16).T
        lows = numpy.where(hidden | (other_high[None, :] < low[:, None]), chain.last, other_low[None, :]).min(1)
        highs = numpy.where(hidden | (other_low[None, :] > high[:, None]), 0, other_high[None, :]).max(1)
        held.append(tuple(zip(lows.tolist(), highs.tolist(), strict=True)))
    return held


def trace(chain: Chain, held: Sequence[Held]) -> list[Path]:
    """A schedule that brings the query the last piece, traced back through what positions can hold at most (`reach`).

    From the last layer to the first: a position that must hold more than it can hold one layer earlier attends to one
    position that holds what is missing on its left, and to one for its right. These must hold it one layer earlier, and
    share a piece with it. Two heads suffice, because only the intervals that reach furthest on either side matter.
    """
    paths: list[Path] = []
    wanted = {0: (0, chain.last)}
    for layer in reversed(range(len(held) - 1)):
        earlier: dict[int, Interval] = {}
        for query, want in wanted.items():
            parts = split(chain, held[layer], query, want)
            paths += heads_for(layer, query, [key for key in parts if key != query])
            for key, part in parts.items():
                earlier[key] = hull(earlier.get(key, part), part)
        wanted = earlier
    return sorted(paths)


def split(chain: Chain, before: Held, query: int, want: Interval) -> dict[int, Interval]:
    """What positions must hold one layer earlier so that `query` can hold `want`: itself, and those it attends to."""
    start = chain.start_of(query)
    low, high = max(want[0], before[query][0]), min(want[1], before[query][1])
    parts: dict[int, Interval] = {}
    if want[0] < low:
        key = holder(chain, before, query, want[0])
        parts[key] = hull((want[0], low), chain.start_of(key))
        low = min(start[0], parts[key][1])  # the query need not hold what the other brings
    if want[1] > high:
        key = holder(chain, before, query, want[1])
        parts[key] = hull(parts.get(key, (high, want[1])), hull((high, want[1]), chain.start_of(key)))
        high = max(start[1], parts[key][0])
    return parts | {query: hull((low, high), start)}


def holder(chain: Chain, before: Held, query: int, piece: int) -> int:
    """The position to attend to for a piece: of those that hold it and can be attended to, the nearest on the chain."""
    for distance in range(1, chain.last + 1):
        for key in (query - distance, query + distance):
            if (
                0 <= key <= chain.last
                and within((piece, piece), before[key])
                and meet(before[key], before[query])
                and chain.sees(query, key)
            ):
                return key
    raise AssertionError("no position offers this piece, though `reach` says that it can be held")


def heads_for(layer: int, query: int, keys: Iterable[int]) -> list[Path]:
    """The paths of one position in one layer: one head for each position that it attends to."""
    return [Path(layer, head, role_name(query), role_name(key)) for head, key in enumerate(sorted(keys))]
