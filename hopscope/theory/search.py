"""A complete search over schedules of a given depth, driven by demand, from the last layer back to the first.

After the last layer the query must hold e_0 … e_2D. Whoever must hold an interval after a layer either held it before,
or attends: then it must hold a part of it before, the other the rest, and both the piece at which they meet. So demands
on one layer become demands on the layer before, and a schedule is found when all of them hold at the start.

Complete means: every schedule from which no path can be left out is found. For let it be simulated, and its demands be
traced back: where a position extends its interval on one side, the last piece that it held on that side is a piece at
which the two may meet, and is among those tried; where one position brings both sides, it holds all that is demanded,
and the other need hold nothing beyond what it started with. Of several heads two matter, one for either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.theory.flow import Chain, Held, Interval, heads_for, hull, meet, reach, within

#: What positions must hold, by place, beyond what they start with.
Demands = dict[int, Interval]
#: In one layer, who attends to whom: (layer, place, places attended to).
Move = tuple[int, int, tuple[int, ...]]
#: A way to meet a demand: whom to attend to, and what everyone involved must hold a layer earlier.
Option = tuple[tuple[int, ...], tuple[tuple[int, Interval], ...]]

#: Partial schedules to look at before giving up: some minutes.
PATIENCE = 3_000_000


@dataclass
class Search:
    """Schedules for one chain with given heads per layer.

    Attributes:
        chain: whose.
        heads: for each layer how many positions a position may attend to in it: 0, 1, or 2, which is as good as any.
        patience: how many partial schedules to look at.
        examined: how many were looked at.
    """

    chain: Chain
    heads: tuple[int, ...]
    patience: int = PATIENCE
    examined: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        many = min(self.heads, default=0) >= 2
        self.attainable = best(self.chain, len(self.heads)) if many else attainable(self.chain, self.heads)
        self.options = cache(self.find_options)
        self.dead: set[tuple[int, frozenset[tuple[int, Interval]]]] = set()
        self.below: dict[tuple[int, frozenset[tuple[int, Interval]]], frozenset[frozenset[Move]]] = {}

    def any(self) -> list[Path] | None:
        """Some schedule by which the query gets the last piece, or None if there is none."""
        goal = {0: (0, self.chain.last)}
        if not self.holds(len(self.heads), 0, goal[0]):
            return None
        found = self.solve(len(self.heads), goal)
        return None if found is None else schedule(found)

    def all(self, limit: int) -> list[list[Path]]:
        """Every schedule without spare paths, and some with, each once. Raises BadInput if there are above `limit`."""
        goal = {0: (0, self.chain.last)}
        if not self.holds(len(self.heads), 0, goal[0]):
            return []
        return [schedule(moves) for moves in self.collect(len(self.heads), goal, limit)]

    # Demands after `layer` layers, met by moves in the layers before --------------------------------------------------

    def solve(self, layer: int, demands: Demands) -> tuple[Move, ...] | None:
        """The first way that works."""
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
        """All ways that work."""
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
        self.examined += 1
        if self.examined > self.patience:
            raise BadInput(
                f"{self.patience:,} partial schedules of this chain did not settle the question; "
                "ask for fewer hops, a monotone order, or many heads"
            )

    def steps(
        self, layer: int, left: Sequence[tuple[int, Interval]], earlier: Demands
    ) -> Iterator[tuple[tuple[Move, ...], Demands]]:
        """All combinations of ways to meet all demands, with the demands that they leave on the layer before."""
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
        """Demands and more demands together, or None if somebody could not meet his."""
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
        """Whether the position can hold this after so many layers, were there nobody else to serve."""
        return any(within(want, interval) for interval in self.attainable[layer][place])

    def find_options(self, layer: int, place: int, want: Interval) -> tuple[Option, ...]:
        """All ways in which a position comes to hold an interval that includes what it starts with."""
        found: list[Option] = []
        low, high = want
        first, last = start = self.chain.start_of(place)
        heads = self.heads[layer - 1]
        if self.holds(layer - 1, place, want):
            found.append(((), ((place, want),)))
        if heads >= 1:
            for meeting in range(last, high):  # from the right: the other holds the meeting piece and all beyond it
                found += self.ask(layer - 1, place, (low, meeting), ((meeting, high),))
            for meeting in range(first, low, -1):
                found += self.ask(layer - 1, place, (meeting, high), ((low, meeting),))
            if low < first and last < high:
                found += self.ask(layer - 1, place, start, (want,))
        if heads >= 2:
            for lower in range(first, low, -1):
                for upper in range(last, high):
                    found += self.ask(layer - 1, place, (lower, upper), ((low, lower), (upper, high)))
        return tuple(found)

    def ask(self, layer: int, place: int, own: Interval, asked: tuple[Interval, ...]) -> list[Option]:
        """The options in which a position holds `own`, and the others that it attends to hold what they are asked."""
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
    """Moves as paths."""
    return sorted(path for layer, place, keys in moves for path in heads_for(layer, place, keys))


# What each position can hold if it is served alone --------------------------------------------------------------------

Attainable = list[list[tuple[Interval, ...]]]


def best(chain: Chain, n_layers: int) -> Attainable:
    """With several heads: by layer and place, the one interval that holds all others."""
    held: list[Held] = reach(chain, n_layers)
    return [[(interval,) for interval in layer] for layer in held]


def attainable(chain: Chain, heads: Sequence[int]) -> Attainable:
    """By layer and place, the intervals that lie in no other that is attainable.

    Each is attained by some schedule; two of them perhaps by none. So it is more than any schedule attains.
    """
    held: Attainable = [[(interval,) for interval in chain.start()]]
    for n_heads in heads:
        held.append([outermost(grown(chain, held[-1], query, n_heads)) for query in range(chain.last + 1)])
    return held


def grown(chain: Chain, before: list[tuple[Interval, ...]], query: int, n_heads: int) -> set[Interval]:
    """What a position can hold a layer later, attending to as many others."""
    visible = [key for key in range(chain.last + 1) if key != query and chain.sees(query, key)]
    found: set[Interval] = set()
    for own in before[query]:
        joined = (
            {hull(own, other) for key in visible for other in before[key] if meet(own, other)} if n_heads else set()
        )
        found |= {own} | joined
        if n_heads >= 2:
            found |= {hull(one, other) for one in joined for other in joined}
    return found


def outermost(intervals: set[Interval]) -> tuple[Interval, ...]:
    """Those that lie in no other: from left to right, each that reaches further than all before."""
    kept: list[Interval] = []
    for interval in sorted(intervals, key=lambda one: (one[0], -one[1])):
        if not kept or interval[1] > kept[-1][1]:
            kept.append(interval)
    return tuple(kept)
