"""The layout of a circuit's picture, in inches: positions in a row, layers as stripes, arrows in lanes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hopscope.circuits.speech import digits
from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path, place_of
from hopscope.problem.roles import Roles

BOX = 0.34  # side of a box
BETWEEN, FOLDED = 0.98, 0.52  # widths of a position of the chain, and of a run of other positions
LOOP = 0.3  # from a position to the far side of a loop back to itself, and to its label
LINE = 0.125  # height of a line of small print under an arrow
PRINT = 0.05, 0.2  # gap between arrow and small print, and height of the label above the arrow
EDGE = 0.12  # of a layer, below its lowest and above its highest lane
SPREAD = 0.11  # between arrows that arrive, or leave, side by side
OTHERS = "other\nchains"
STRIPES = "#f2f2f2", "#fafafa"


@dataclass(frozen=True)
class Spot:
    """A position of the shown chain, or a run of other positions (`symbol` then gives their number)."""

    symbol: str
    roles: tuple[str, ...]
    x: float = 0.0

    @property
    def folded(self) -> bool:
        return not self.roles


@dataclass(frozen=True)
class Band:
    """A layer's stripe, and the height of a lane in it."""

    tint: str
    bottom: float
    top: float
    lane: float
    print: float  # height of small print in a lane, below the arrow

    def level(self, wire: Wire) -> float:
        """The height of an arrow's lane."""
        return self.bottom + EDGE + wire.lane * self.lane + self.print


@dataclass
class Wire:
    """A path's arrow from the attended position to the attending one."""

    path: Path
    start: Spot
    end: Spot
    lane: int = 0
    leaves: float = 0.0  # offset from the middle of the attended spot
    arrives: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def reach(self) -> tuple[float, float]:
        """The horizontal extent in its lane, at least that of its label."""
        if self.start is self.end:  # a loop, with its label at the right
            return self.start.x, self.start.x + LOOP + BETWEEN
        middle, half = (self.start.x + self.end.x) / 2, max(abs(self.start.x - self.end.x) / 2, BETWEEN / 2 - 0.03)
        return middle - half, middle + half


def positions(roles: Roles, symbols: Sequence[str], row: int, query: str | None) -> list[Spot]:
    """The sequence's positions: those of the shown chain with their roles, others without."""
    chain = chain_asked(roles, symbols, row, query)
    spots = []
    for position in range(roles.chain.shape[-1]):
        held = [name for n, name in enumerate(roles.names) if int(roles.chain[row, n, position]) == chain]
        spots.append(Spot(symbols[position] if symbols else named(held), tuple(held)))
    return spots


def named(roles: Sequence[str]) -> str:
    """x0, x1 …: the symbol that a position of a plain chain holds; for other roles the role itself."""
    try:
        return f"x{place_of(roles[0]) // 2}" if roles else ""
    except BadInput:
        return roles[0]


def chain_asked(roles: Roles, symbols: Sequence[str], row: int, query: str | None) -> int:
    """The number of a query's chain, by default of the first query."""
    queries = roles.chain[row, roles.index("query")].tolist()
    asked = [(position, chain) for position, chain in enumerate(queries) if chain >= 0]
    if query is None or not symbols:
        return asked[0][1]
    chains = {symbols[position]: chain for position, chain in asked}
    if query not in chains:
        raise BadInput(f"there is no query {query!r} here; there are {', '.join(chains)}")
    return chains[query]


def place(sequence: Sequence[Spot], others: bool) -> list[Spot]:
    """Positions from left to right, with runs of other positions folded into one box; first a box for `others`."""
    folded = [Spot(OTHERS, ())] if others else []
    for other, run in itertools.groupby(sequence, lambda spot: spot.folded):
        members = list(run)
        folded += [Spot(f"+{len(members)}", ())] if other else members
    spots: list[Spot] = []
    x = 0.0
    for spot in folded:
        step = FOLDED if spot.folded and spot.symbol != OTHERS else BETWEEN
        spots.append(Spot(spot.symbol, spot.roles, x + step / 2))
        x += step
    return spots


def wired(path: Path, spots: Sequence[Spot]) -> list[Wire]:
    """A path's arrows; none if a role is not in the sequence. Between chains they start at the box of others."""
    starts = [s for s in spots if (s.symbol == OTHERS if path.chain == "other" else path.key in s.roles)]
    return [Wire(path, start, end) for end in spots if path.query in end.roles for start in starts]


def notes(path: Path, removal: Mapping[Path, float], onsets: Mapping[Path, float]) -> list[str]:
    """The small print under an arrow: other chains' key role, loss without the path, onset."""
    words = [f"their {path.key}"] if path.chain == "other" else []
    words += [f"without {digits(removal[path])}"] if path in removal else []
    return words + ([f"from step {onsets[path]:,.0f}"] if path in onsets else [])


def stack(wires: Sequence[Wire]) -> dict[int, Band]:
    """The stripes of the layers in use; arrows that would overlap get different lanes, short ones the lowest."""
    bands: dict[int, Band] = {}
    bottom = BOX / 2 + 0.14
    for layer in sorted({wire.path.layer for wire in wires}):
        here = sorted((w for w in wires if w.path.layer == layer), key=lambda w: (w.reach[1] - w.reach[0], w.path))
        taken: list[Wire] = []
        for wire in here:
            busy = {other.lane for other in taken if not apart(wire, other)}
            wire.lane = next(n for n in itertools.count() if n not in busy)
            taken.append(wire)
        spread(here)
        printed = PRINT[0] + LINE * max(len(wire.notes) for wire in here)
        lane = printed + PRINT[1]
        top = bottom + 2 * EDGE + lane * (1 + max(wire.lane for wire in here))
        bands[layer] = Band(STRIPES[len(bands) % 2], bottom, top, lane, printed)
        bottom = top
    return bands


def apart(one: Wire, other: Wire) -> bool:
    """Whether two arrows can share a lane."""
    return one.reach[1] <= other.reach[0] + 1e-6 or other.reach[1] <= one.reach[0] + 1e-6


def spread(wires: Sequence[Wire]) -> None:
    """Offset arrows that leave or arrive at one position, so that those of one side do not cross.

    Nearest to the position, the highest leaves and the lowest arrives.
    """
    for spot in {wire.start for wire in wires} | {wire.end for wire in wires}:
        for side in (-1, 1):
            leaving = [w for w in wires if w.start is spot and (w.end.x - spot.x) * side > 0]
            arriving = [w for w in wires if w.end is spot and (w.start.x - spot.x) * side > 0]
            for n, wire in enumerate(sorted(leaving, key=lambda w: -w.lane)):
                wire.leaves = side * SPREAD * n
            shared = len([w for w in wires if w.end is spot]) > len(arriving)
            for n, wire in enumerate(sorted(arriving, key=lambda w: w.lane)):
                beside = shared or any(w.start is spot and w.lane >= wire.lane for w in wires)
                wire.arrives = side * SPREAD * (n + beside)
