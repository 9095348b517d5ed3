"""A complete backward search over schedules of a given depth, from the last layer to the first.

After the last layer the query must hold e_0 … e_2D. A position that must hold an interval after a layer either holds it
before that layer, or attends to another position. In that case each of the two holds one part before the layer, and the
parts share a piece at which they meet. So demands on one layer become demands on the layer before. A schedule is found
when all demands are met before layer 0.

The search is complete: it finds every schedule from which no path can be removed. To see this, simulate such a schedule
and trace its demands back. If a position extends its interval on one side, the last piece that it held on that side is
a possible meeting piece, and the search tries all of these. If one other position brings both sides, that position
holds all that is demanded, and the attending one needs only what it holds before layer 0. Two heads suffice, one for
each side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.theory.flow import Chain, Interval, heads_for, hull, meet, within

#: What positions must hold, by index, if that is more than they hold before layer 0.
Demands = dict[int, Interval]
#: The attention of one position in one layer: (layer, index of the position, indices that it attends to).
Move = tuple[int, int, tuple[int, ...]]
#: A way to meet a demand: the positions to attend to, and what each position involved must hold one layer earlier.
Option = tuple[tuple[int, ...], tuple[tuple[int, Interval], ...]]

#: Partial schedules that are examined before the search gives up; they take some minutes.
PATIENCE = 3_000_000


@dataclass
class Search:
    """A search for schedules of one chain with given numbers of heads per layer.

    Attributes:
        chain: to be solved.
        heads: for each layer, how many positions a position may attend to: 0, 1 or 2; more than 2 are of no use.
        patience: how many partial schedules may be examined.
        examined: how many have been examined.
    """

    chain: Chain
    heads: tuple[int, ...]
    patience: int = PATIENCE
    examined: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.attainable = attainable(self.chain, self.heads)
        self.options = cache(self.find_options)
        self.dead: set[tuple[int, frozenset[tuple[int, Interval]]]] = set()
        self.below: dict[tuple[int, frozenset[tuple[int, Interval]]], frozenset[frozenset[Move]]] = {}

    def any(self) -> list[Path] | None:
        """A schedule that brings the query the last piece; None if there is none. Raises BadInput if it gives up."""
        moves = self.solve(len(self.heads), {0: (0, self.chain.last)})
        return None if moves is None else schedule(moves)

    def all(self, limit: int) -> list[list[Path]]:
        """Every schedule from which no path can be removed, and some others, each once.

        Raises BadInput if there are more than `limit`, or out of patience.
        """
        goal = {0: (0, self.chain.last)}
        return [schedule(moves) for moves in self.collect(len(self.heads), goal, limit)]

    # Demands after `layer` layers, met by moves in earlier layers -----------------------------------------------------

    def solve(self, layer: int, demands: Demands) -> tuple[Move, ...] | None:
        """The first set of moves that meets demands; None if there is none."""
        state = layer, frozenset(demands.items())
        if not demands:
            return ()
        if layer == 0 or state in self.dead:
            return None
        for moves, earlier in self.steps(layer, tuple(sorted(demands.items())), {}):
            self.count()
            if (rest := self.solve(layer - 1, earlier)) is not None:
                return (*rest, *moves)
        self.dead.add(state)
        return None

    def collect(self, layer: int, demands: Demands, limit: int) -> frozenset[frozenset[Move]]:
        """All sets of moves that meet demands."""
        state = layer, frozenset(demands.items())
        if not demands or layer == 0:
            return frozenset() if demands else frozenset({frozenset()})
        if state not in self.below:
            found: set[frozenset[Move]] = set()
            for moves, earlier in self.steps(layer, tuple(sorted(demands.items())), {}):
                self.count()
                found |= {rest | set(moves) for rest in self.collect(layer - 1, earlier, limit)}
                if len(found) > limit:
                    raise BadInput(f"there are more than {limit} schedules; ask for fewer hops, or raise the limit")
            self.below[state] = frozenset(found)
        return self.below[state]

    def count(self) -> None:
        """Count a partial schedule. Raises BadInput after too many."""
        self.examined += 1
        if self.examined > self.patience:
            raise BadInput(
                f"{self.patience:,} partial schedules of this chain did not settle the question; "
                "ask for fewer hops, a monotone order, or many heads"
            )

    def steps(
        self, layer: int, left: Sequence[tuple[int, Interval]], earlier: Demands
    ) -> Iterator[tuple[tuple[Move, ...], Demands]]:
        """All combinations of moves that meet all demands, with the demands on the layer before that follow."""
        if not left:
            yield (), earlier
            return
        place, want = left[0]
        for keys, parts in self.options(layer, place, want):
            joined = self.join(layer - 1, earlier, parts)
            if joined is not None:
                own: tuple[Move, ...] = ((layer - 1, place, keys),) if keys else ()
                for moves, result in self.steps(layer, left[1:], joined):
                    yield (*own, *moves), result

    def join(self, layer: int, demands: Demands, parts: Sequence[tuple[int, Interval]]) -> Demands | None:
        """Demands and further demands together; None if some position cannot hold what it must."""
        joined = dict(demands)
        for place, part in parts:
            start = self.chain.start_of(place)
            if within(part, start):
                continue
            joined[place] = hull(joined.get(place, start), part)
            if not self.holds(layer, place, joined[place]):
                return None
        return joined

    def holds(self, layer: int, place: int, want: Interval) -> bool:
        """Whether a position can hold an interval after `layer` layers, if no other demand had to be met."""
        return any(within(want, interval) for interval in self.attainable[layer][place])

    def find_options(self, layer: int, place: int, want: Interval) -> tuple[Option, ...]:
        """All ways in which a position can hold an interval, which includes what it holds before layer 0."""
        options: list[Option] = []
        low, high = want
        first, last = start = self.chain.start_of(place)
        heads = self.heads[layer - 1]
        if self.holds(layer - 1, place, want):
            options.append(((), ((place, want),)))
        if heads >= 1:
            for meeting in range(last, high):  # the other holds the meeting piece and all pieces to its right
                options += self.ask(layer - 1, place, (low, meeting), ((meeting, high),))
            for meeting in range(first, low, -1):
                options += self.ask(layer - 1, place, (meeting, high), ((low, meeting),))
            if low < first and last < high:
                options += self.ask(layer - 1, place, start, (want,))
        if heads >= 2:
            for lower in range(first, low, -1):
                for upper in range(last, high):
                    options += self.ask(layer - 1, place, (lower, upper), ((low, lower), (upper, high)))
        return tuple(options)

    def ask(self, layer: int, place: int, own: Interval, asked: tuple[Interval, ...]) -> list[Option]:
        """The options in which a position holds `own`, and attends to one other that holds each interval `asked`."""
        if not self.holds(layer, place, own):
            return []
        choices: list[Option] = [((), ((place, own),))]
        for part in asked:
            able = [
                (key, hull(part, self.chain.start_of(key)))
                for key in range(self.chain.last + 1)
                if key != place and self.chain.sees(place, key)
            ]
            able = [(key, whole) for key, whole in able if self.holds(layer, key, whole)]
            choices = [((*keys, k), (*parts, (k, whole))) for keys, parts in choices for k, whole in able]
        return [(tuple(sorted(keys)), parts) for keys, parts in choices if len(set(keys)) == len(keys)]


def schedule(moves: Sequence[Move] | frozenset[Move]) -> list[Path]:
    """Moves as sorted paths."""
    return sorted(path for layer, place, keys in moves for path in heads_for(layer, place, keys))


# What each position can hold, whatever the others hold ----------------------------------------------------------------

#: By layer and index of the position: intervals that it can hold.
Attainable = list[list[tuple[Interval, ...]]]


def attainable(chain: Chain, heads: Sequence[int]) -> Attainable:
    """The intervals of each position that are contained in no other interval it can hold.

    Some schedule attains each of them, but perhaps none attains two at once: this is an upper bound.
    """
    held: Attainable = [[(interval,) for interval in chain.start()]]
    for n_heads in heads:
        held.append([outermost(grown(chain, held[-1], query, n_heads)) for query in range(chain.last + 1)])
    return held


def grown(chain: Chain, before: list[tuple[Interval, ...]], query: int, n_heads: int) -> set[Interval]:
    """What a position can hold one layer later if it attends to up to `n_heads` others.

    Two heads can attend to the positions that reach furthest to either side, which brings as much as all together.
    """
    visible = [key for key in range(chain.last + 1) if key != query and chain.sees(query, key)]
    intervals: set[Interval] = set()
    for own in before[query]:
        joined = {hull(own, other) for key in visible for other in before[key] if meet(own, other)}
        intervals.add(own)
        if n_heads:
            intervals |= joined if n_heads == 1 else {reduce(hull, joined, own)}
    return intervals


def outermost(intervals: set[Interval]) -> tuple[Interval, ...]:
    """The intervals that are contained in no other, from left to right: each ends further right than all before."""
    kept: list[Interval] = []
    for interval in sorted(intervals, key=lambda one: (one[0], -one[1])):
        if not kept or interval[1] > kept[-1][1]:
            kept.append(interval)
    return tuple(kept)
