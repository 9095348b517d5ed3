"""Information flow along a plain chain: what each position can hold after each layer (Musat, ICLR 2025, section 5).

The positions of a chain of D hops, in order of reachability from the query, are s_0 … s_2D: the query, then the first
and the second token of fact 1, of fact 2, and so on. Neighbours s_i and s_(i+1) share one piece of information e_i: a
symbol where i is even, the position of a fact where i is odd. So s_i starts with e_(i-1) and e_i, and s_0 with e_0.
(Appendix B writes e_i and e_(i+1), which by its own definition of e_i is one too many.)

Assumption 1: a position attends only to positions with which it shares a piece. Assumption 2: it then receives all that
they hold. Hence what a position holds is always an interval of pieces, and the question is whether s_0 holds e_2D.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path, place_of, role_name

#: First and last piece that a position holds.
Interval = tuple[int, int]
#: What every position of a chain holds, by place.
Held = tuple[Interval, ...]

#: The longest chain that is asked for: matrices of all pairs of its positions must fit into memory.
MOST_HOPS = 2048


@dataclass(frozen=True)
class Chain:
    """The positions of one chain.

    Attributes:
        hops: D, the number of facts.
        order: the steps, counted from 1, as they are presented; within a fact the first token stands just before the
            second; the query stands last.
        causal: whether a position may attend to earlier positions and itself only.
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
        """2D: the last position of the chain, and the last piece, which is what the query wants."""
        return 2 * self.hops

    @cached_property
    def times(self) -> tuple[int, ...]:
        """When each position is presented."""
        times = {0: self.last}
        for n, k in enumerate(self.order):
            times |= {2 * k - 1: 2 * n, 2 * k: 2 * n + 1}
        return tuple(times[place] for place in range(self.last + 1))

    def start(self) -> Held:
        """What the positions hold before any layer."""
        return tuple(map(self.start_of, range(self.last + 1)))

    def start_of(self, place: int) -> Interval:
        """What one position holds before any layer: the pieces that it shares with its neighbours."""
        return max(0, place - 1), place

    def sees(self, query: int, key: int) -> bool:
        """Whether the mask lets one position attend to another."""
        return not self.causal or self.times[key] <= self.times[query]


def meet(one: Interval, other: Interval) -> bool:
    """Whether two intervals share a piece."""
    return one[0] <= other[1] and other[0] <= one[1]


def hull(one: Interval, other: Interval) -> Interval:
    """The least interval that holds both."""
    return min(one[0], other[0]), max(one[1], other[1])


def within(part: Interval, whole: Interval) -> bool:
    """Whether one interval lies inside another."""
    return whole[0] <= part[0] and part[1] <= whole[1]


# A given schedule -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flow:
    """What a list of paths does.

    Attributes:
        held: what every position holds before any layer, after layer 0, after layer 1 and so on.
        blind: paths whose positions share no piece when they attend, against assumption 1; they are counted to move
            nothing.
        masked: paths to positions that the mask hides; they move nothing either.
    """

    held: tuple[Held, ...]
    blind: tuple[Path, ...]
    masked: tuple[Path, ...]

    @property
    def solves(self) -> bool:
        """Whether the query ends up with the last piece, which is the answer."""
        return self.held[-1][0][1] == len(self.held[-1]) - 1


def simulate(chain: Chain, paths: Iterable[Path], offered: Callable[[Held], Held] = lambda held: held) -> Flow:
    """Let information flow along paths: in each layer all positions attend at once to what the layer before left.

    Paths between different chains bring no piece of this one, and are passed over. Raises BadInput for a role that the
    chain lacks.

    Args:
        chain: of which positions hold pieces.
        paths: the schedule.
        offered: what each position offers to whoever attends to it, of what all hold; by default what it holds.
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
    """The place of a role in a chain. Raises BadInput if the chain is too short for it."""
    if (found := place_of(role)) > chain.last:
        raise BadInput(f"a chain of {chain.hops} hops has no {role}")
    return found


def without_spare(chain: Chain, paths: Sequence[Path]) -> list[Path]:
    """What remains when paths that the answer does not need are left out, one after the other, late layers first."""
    kept = list(paths)
    for path in sorted(paths, reverse=True):
        fewer = [other for other in kept if other != path]
        if simulate(chain, fewer).solves:
            kept = fewer
    return kept


# The best that any schedule can do ------------------------------------------------------------------------------------


def reach(chain: Chain, n_layers: int) -> list[Held]:
    """What every position holds at best before any layer and after each of `n_layers`, with any number of heads.

    Everyone attends to everyone with whom a piece is shared. To which piece the interval of s_i grows leftward is the
    least start among visible intervals that end no earlier than its own begins; it need not be asked whether they also
    begin before its own ends, for s_i itself is among them. Rightward it is the same, mirrored.
    """
    start = numpy.array(chain.start(), dtype=numpy.int16).T
    times = numpy.array(chain.times, dtype=numpy.int16)
    hidden = (times[None, :] > times[:, None]) & chain.causal
    held = [start]
    for _ in range(n_layers):
        low, high = held[-1]
        lows = numpy.where(hidden | (high[None, :] < low[:, None]), chain.last, low[None, :]).min(1)
        highs = numpy.where(hidden | (low[None, :] > high[:, None]), 0, high[None, :]).max(1)
        held.append(numpy.stack([lows, highs]).astype(numpy.int16))
    return [tuple((int(low), int(high)) for low, high in layer.T) for layer in held]


def trace(chain: Chain, held: Sequence[Held]) -> list[Path]:
    """A schedule by which the query gets the last piece, out of what positions hold at best (`reach`).

    Back from the last layer: whoever must hold more than he can hold a layer earlier attends to one position that holds
    what is missing on the left, and to another for the right; these must hold it, and himself a piece in common. At
    most one head on either side is used, for of all that are attended to only the two that reach furthest matter.
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
    """Who must hold what a layer earlier, so that a position can hold `want`: itself, and those to whom it attends."""
    start = chain.start_of(query)
    low, high = max(want[0], before[query][0]), min(want[1], before[query][1])
    parts: dict[int, Interval] = {}
    if want[0] < low:
        key = holder(chain, before, query, want[0])
        parts[key] = hull((want[0], low), chain.start_of(key))
        low = min(start[0], parts[key][1])  # what the other holds, one need not hold oneself
    if want[1] > high:
        key = holder(chain, before, query, want[1])
        parts[key] = hull(parts.get(key, (high, want[1])), hull((high, want[1]), chain.start_of(key)))
        high = max(start[1], parts[key][0])
    return parts | {query: hull((low, high), start)}


def holder(chain: Chain, before: Held, query: int, piece: int) -> int:
    """Whom to ask for a piece: the nearest along the chain of those who hold it and share a piece."""
    for distance in range(1, chain.last + 1):
        for key in (query - distance, query + distance):
            if (
                0 <= key <= chain.last
                and within((piece, piece), before[key])
                and meet(before[key], before[query])
                and chain.sees(query, key)
            ):
                return key
    raise AssertionError("a piece that can be held was brought by somebody")


def heads_for(layer: int, query: int, keys: Iterable[int]) -> list[Path]:
    """The paths of one position in one layer: a head for each position that it attends to."""
    return [Path(layer, head, role_name(query), role_name(key)) for head, key in enumerate(sorted(keys))]
