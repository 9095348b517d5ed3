"""A circuit as a picture: the positions of one chain, and the attention between them layer by layer.

It follows Musat (ICLR 2025, figures 5 and 7). Time runs upwards: the sequence is at the bottom, the first used layer
above it, the last on top. A line rises from each position of the chain for as long as something still reads it. An
arrow leads from the attended position to the attending one. Lengths are in inches.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path as Curve

from hopscope.circuits.speech import count, spans
from hopscope.drawing.attention_maps import COUNTING
from hopscope.drawing.circuit_layout import (
    BETWEEN,
    BOX,
    LINE,
    LOOP,
    OTHERS,
    Band,
    Spot,
    Wire,
    notes,
    place,
    positions,
    stack,
    wired,
)
from hopscope.drawing.problem_diagram import blend
from hopscope.drawing.style import GREY, QUERY_INK, canvas, colour, ink_on, styled
from hopscope.problem.paths import Path
from hopscope.problem.roles import Roles

ROUND = 0.12  # radius of an arrow's corners
NARROWEST = 4.4  # so that the caption fits

LEFT = 0.85  # for the names of layers
HEAD = 0.045, 0.1  # half the width, and the length, of an arrowhead
CHAIN = re.compile(r"query$|(key|value)\[")  # roles of chains of facts


@styled
def circuit_diagram(
    paths: Collection[Path],
    roles: Roles,
    symbols: Sequence[str] = (),
    *,
    row: int = 0,
    query: str | None = None,
    strengths: Mapping[Path, float] | None = None,
    removal: Mapping[Path, float] | None = None,
    onsets: Mapping[Path, float] | None = None,
    interchangeable: Collection[Path] = (),
    n_layers: int | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """The paths of a circuit, drawn on one chain of one instance.

    Args:
        paths: the circuit's paths.
        roles: the role of every position, for sequences of any task.
        symbols: the symbol at each position (`hopscope.circuits.words.symbols_at`); by default x0, x1 …
        row: the index of the sequence.
        query: the symbol of the query whose chain is drawn; by default the first query.
        strengths: mean attention, 0–1, shown by the arrows' widths.
        removal: the circuit's loss without each path.
        onsets: the training step at which each path emerged.
        interchangeable: paths that other circuits lack or replace, drawn dashed; those not in `paths` are added.
        n_layers: layers of the model; if given, unused layers are named.
        title: the circuit's name, followed by its size.
        ax: axes to draw on; by default those of a new figure of the needed size.

    Raises:
        BadInput: the query is not in this instance.
    """
    every = sorted({*paths, *interchangeable})
    spots = place(positions(roles, symbols, row, query), others=any(path.chain == "other" for path in every))
    wires = [wire for path in every for wire in wired(path, spots)]
    for wire in wires:
        wire.notes = notes(wire.path, removal or {}, onsets or {})
    bands = stack(wires)
    top = max((band.top for band in bands.values()), default=BOX) + 0.42
    width = max(spots[-1].x + BETWEEN / 2, NARROWEST, *(wire.reach[1] for wire in wires))
    below = wrapped(caption(every, wires, spots, interchangeable, n_layers, [strengths, removal, onsets]), width)
    depth = 0.6 + 0.165 * (below.count("\n") + 1)
    figure, ax = canvas(ax, width + LEFT + 0.2, top + depth + 0.35)
    draw_bands(ax, bands, width)
    draw_streams(ax, spots, wires, bands)
    colours = tints(spots)
    for wire in wires:
        band, strength = bands[wire.path.layer], (strengths or {}).get(wire.path)
        draw_wire(ax, wire, band, colours.get(wire.start.symbol, GREY), strength, wire.path in interchangeable)
    draw_spots(ax, spots, colours)
    size = sized(paths, n_layers)
    if others := set(interchangeable) - set(paths):
        size += f", {count(len(others), 'alternative')} dashed"
    ax.text(-LEFT, -0.58, below, va="top", fontsize=7.5, color=GREY, linespacing=1.45, parse_math=False)
    ax.set_title(f"{title}: {size}" if title else size, parse_math=False)
    ax.set_axis_off()
    ax.set(xlim=(-LEFT, width), ylim=(-depth, top), aspect="equal")
    return figure


# Drawing ---------------------------------------------------------------------------------------------------------


def tints(spots: Sequence[Spot]) -> dict[str, str]:
    """Each symbol's colour: that of the step whose fact concludes it, as in curves of hops; dark for the query's."""
    colours: dict[str, str] = {}
    for spot in spots:
        for role in spot.roles:
            kind, _, number = role.rstrip("]").partition("[")
            if kind == "value" and number.isdecimal():
                colours.setdefault(spot.symbol, colour(int(number) - 1))
    asked = {spot.symbol for spot in spots if "query" in spot.roles}
    for spot in spots:  # symbols whose roles belong to no chain get colours of their own
        if not spot.folded and spot.symbol not in asked and not any(CHAIN.match(role) for role in spot.roles):
            colours.setdefault(spot.symbol, colour(len(colours)))
    return colours | {spot.symbol: QUERY_INK for spot in spots if not spot.folded and spot.symbol not in colours}


def draw_bands(ax: Axes, bands: Mapping[int, Band], width: float) -> None:
    """Draw layers as stripes, with names at the left."""
    for layer, band in bands.items():
        corner, height = (-LEFT, band.bottom), band.top - band.bottom
        ax.add_patch(Rectangle(corner, width + LEFT, height, color=band.tint, lw=0, zorder=0))
        ax.text(-LEFT + 0.1, (band.bottom + band.top) / 2, f"layer {layer}", va="center", fontsize=9, color=QUERY_INK)


def draw_streams(ax: Axes, spots: Sequence[Spot], wires: Sequence[Wire], bands: Mapping[int, Band]) -> None:
    """Draw a line up from each position for as long as it is read; the query's goes to the top."""
    top = max((band.top for band in bands.values()), default=BOX / 2)
    for spot in spots:
        asked = "query" in spot.roles
        read = [bands[wire.path.layer].level(wire) - ROUND for wire in wires if wire.start is spot]
        high = top + 0.16 if asked else max(read, default=0.0)
        if not high:
            continue
        ax.plot([spot.x] * 2, [BOX / 2, high], color="#b8b8b8", lw=1.6, ls=":" if spot.folded else "-", zorder=1)
        if asked:
            ax.text(spot.x, top + 0.18, "answers", ha="center", va="bottom", fontsize=8.5, color=QUERY_INK)


def draw_wire(ax: Axes, wire: Wire, band: Band, tint: str, strength: float | None, dashed: bool) -> None:
    """Draw an arrow up from the attended position, along a lane, and up to the attending one, with its label."""
    share = 1.0 if strength is None else min(1.0, max(0.0, strength))
    level, ink, x = band.level(wire), blend(tint, 0.35 + 0.65 * share), wire.end.x + wire.arrives
    line = PathPatch(
        route(wire.start.x + wire.leaves, band.bottom, x, band.top - HEAD[1] / 2, level),
        ec=ink,
        fc="none",
        lw=0.8 + 1.6 * share,
        ls=(0, (3, 1.6)) if dashed else "-",
        capstyle="butt",
        zorder=2,
    )
    line.set_gid(str(wire.path))
    ax.add_patch(line)
    foot = band.top - HEAD[1]
    ax.add_patch(Polygon([(x - HEAD[0], foot), (x + HEAD[0], foot), (x, band.top)], color=ink, lw=0.5, zorder=2))
    label = f"L{wire.path.layer}H{wire.path.head}"
    words = label if strength is None else f"{label}  {strength:.2f}"
    loop = wire.start is wire.end
    middle, side = (wire.start.x + LOOP, "left") if loop else (sum(wire.reach) / 2, "center")
    ground = {"facecolor": band.tint, "edgecolor": "none", "pad": 0.6}
    ax.text(middle, level + 0.04, words, ha=side, va="bottom", fontsize=7.8, zorder=1.5, bbox=ground)
    for n, note in enumerate(wire.notes):
        y = level - 0.05 - LINE * n
        ax.text(middle, y, note, ha=side, va="top", fontsize=6.6, color=GREY, zorder=1.5, bbox=ground, parse_math=False)


def route(x0: float, y0: float, x1: float, y1: float, level: float) -> Curve:
    """Up, across and up, with round corners; from a position to itself a loop in its lane."""
    side = 1 if x1 > x0 else -1
    if abs(x1 - x0) < 2 * ROUND:
        low, high, out = max(y0, level - ROUND), min(y1, level + ROUND), x0 + LOOP
        points = [(x0, y0), (x0, low), (out, low), (out, high), (x1, high), (x1, y1)]
        return Curve(points, [Curve.MOVETO, Curve.LINETO, *[Curve.CURVE4] * 3, Curve.LINETO])
    up = min(ROUND, level - y0, y1 - level)
    points = [(x0, y0), (x0, level - up), (x0, level), (x0 + side * up, level)]
    points += [(x1 - side * up, level), (x1, level), (x1, level + up), (x1, y1)]
    codes = [Curve.MOVETO, Curve.LINETO, Curve.CURVE3, Curve.CURVE3]
    return Curve(points, [*codes, Curve.LINETO, Curve.CURVE3, Curve.CURVE3, Curve.LINETO])


def draw_spots(ax: Axes, spots: Sequence[Spot], colours: Mapping[str, str]) -> None:
    """Draw a box for each position of the chain, with its roles underneath; the tokens of a fact are joined."""
    for spot, after in itertools.zip_longest(spots, spots[1:]):
        tint = "#e6e6e6" if spot.folded else colours[spot.symbol]
        high = (0.7 if spot.folded and spot.symbol != OTHERS else 1.0) * BOX
        wide = high * (1.5 if spot.symbol == OTHERS else 1.0)
        corner, style = (spot.x - wide / 2, -high / 2), "round,pad=0,rounding_size=0.06"
        ax.add_patch(FancyBboxPatch(corner, wide, high, boxstyle=style, fc=tint, ec="none", zorder=3))
        size = 6.5 if spot.folded else 9.5 * min(1.0, 3.4 / max(1, len(spot.symbol)))
        ink = GREY if spot.folded else ink_on(tint)
        at_centre: Any = {"ha": "center", "parse_math": False}  # `$$` is a token, not a formula
        ax.text(spot.x, -0.01, spot.symbol, va="center", color=ink, fontsize=size, zorder=4, **at_centre)
        roles = "\n".join(spot.roles) if not spot.folded else ""
        below = spot.x, -BOX / 2 - 0.07
        ax.text(*below, roles, va="top", fontsize=7, fontfamily="monospace", color="#333333", **at_centre)
        if after is not None and fact_of(spot) & fact_of(after):
            ax.plot([spot.x, after.x], [0, 0], color="#c8c8c8", lw=2.5, zorder=1.5)


def fact_of(spot: Spot) -> set[str]:
    """The numbers of the facts that a position belongs to."""
    return {role.rstrip("]").partition("[")[2].split(",")[0] for role in spot.roles if "[" in role}


# Words -----------------------------------------------------------------------------------------------------------


def sized(paths: Collection[Path], n_layers: int | None) -> str:
    """The circuit's size in words."""
    heads, used = {(path.layer, path.head) for path in paths}, len({path.layer for path in paths})
    layers = f"{used} of {count(n_layers, 'layer')}" if n_layers else count(used, "layer")
    return f"{count(len(paths), 'path')}, {count(len(heads), 'head')}, {layers}"


def caption(
    paths: Sequence[Path],
    wires: Sequence[Wire],
    spots: Sequence[Spot],
    interchangeable: Collection[Path],
    n_layers: int | None,
    given: Sequence[Mapping[Path, float] | None],
) -> list[str]:
    """Sentences on how to read the picture, and what it leaves out."""
    strengths, removal, onsets = given
    under = ["the circuit's loss without it"] * bool(removal) + ["the step at which it emerged"] * bool(onsets)
    missing = sorted(set(paths) - {wire.path for wire in wires})
    return [
        "Time runs upwards, from the first layer in use to the last.",
        *([f"On an arrow: its head{' and mean attention' if strengths else ''}."]),
        *([f"Below: {' and '.join(under)}."] if under else []),
        *(["Boxes of one colour hold one symbol."]),
        *(["Grey boxes: so many other positions."] if any(spot.folded for spot in spots) else []),
        *(["Dashed: interchangeable with others."] if interchangeable else []),
        *([unused] if n_layers and (unused := unused_layers((p.layer for p in paths), n_layers)) else []),
        *([f"Not in this sequence: {', '.join(map(str, missing))}."] if missing else []),
        COUNTING,
    ]


def unused_layers(used: Iterable[int], n_layers: int) -> str:
    """`Layers 0 and 5–11 are not used.`; empty if every layer is used."""
    idle = sorted(set(range(n_layers)) - set(used))
    if not idle:
        return ""
    return f"Layer{'s' * (len(idle) > 1)} {spans(idle)} {'are' if len(idle) > 1 else 'is'} not used."


def wrapped(sentences: Sequence[str], width: float) -> str:
    """Sentences wrapped to the picture's width in inches."""
    return textwrap.fill(" ".join(sentences), int((width + LEFT) / 0.0585))
