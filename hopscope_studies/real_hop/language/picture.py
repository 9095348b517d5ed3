"""The circuit of a language model's hop: places by token and layer, edges between them, and attention to facts.

Time runs to the right, from the token that is asked about to the answer. Layers run upward, and layers without a place
are left out. Layers and heads count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from hopscope.drawing.style import GREY, PALETTE, Picture, picture, styled
from hopscope_studies.real_hop.language.edges import on_the_way
from hopscope_studies.real_hop.language.portrait import looked_at

INTO = {"q": (PALETTE[0], "into a query"), "k": (PALETTE[2], "into a key"), "v": (PALETTE[1], "into a value")}
STREAM = ("#999999", "into an MLP or the logits")
LOOKS = PALETTE[3]
WIDE, HIGH, BEHIND = 1.0, 1.0, 0.35  # size of a place; height of an MLP above the heads of its layer


@dataclass(frozen=True)
class Shown:
    """The content of the picture.

    Attributes:
        places: places such as `a15.h7@query` and `m0@query`.
        edges: sender, receiver, part (q, k, v or empty) and score.
        tokens: the question's tokens as text, in order, by the names of their positions.
        looks: a place's attention to the fact that is asked about, drawn as a line to the facts.
        facts: the text of the facts before the question.
    """

    places: Sequence[str]
    edges: Sequence[tuple[str, str, str, float]]
    tokens: dict[str, str]
    looks: Mapping[str, float] = field(default_factory=dict)
    facts: str = ""

    def on_the_way(self) -> Shown:
        """The same without places that are on no path from the query's embedding to the logits."""
        way = on_the_way([edge[:2] for edge in self.edges])
        return replace(
            self,
            places=[place for place in self.places if place in way],
            edges=[edge for edge in self.edges if {*edge[:2]} <= way],
        )


@styled
def hop_circuit(shown: Shown, title: str) -> Picture:
    """A circuit in a figure of its own."""
    columns = len({place.partition("@")[2] for place in shown.places})
    levels = len({layer_of(place) for place in shown.places})
    figure = picture(3.6 + 2.2 * columns, 2.2 + 0.52 * levels)
    ax = figure.add_subplot()
    draw_hop(ax, shown)
    ax.set_title(title)
    return figure


def layer_of(place: str) -> int:
    """`a15.h7@query` is in layer 15."""
    return int(place.partition("@")[0][1:].partition(".h")[0])


def name_of(place: str) -> str:
    """`L15H7` or `MLP 0`."""
    node = place.partition("@")[0]
    return f"L{node[1:].replace('.h', 'H')}" if node.startswith("a") else f"MLP {node[1:]}"


def draw_hop(ax: Axes, shown: Shown) -> None:
    """Draw a circuit on axes."""
    where, columns, levels = spots(shown)
    top = max(levels.values(), default=0) + 1.0
    last = next(reversed(shown.tokens))
    where["logits"] = (columns[last], top)
    for name in (one for one in shown.tokens if f"input@{one}" in {edge[0] for edge in shown.edges}):
        where[f"input@{name}"] = (columns[name], -1.0)
    draw_edges(ax, shown, where)
    for place, (x, y) in where.items():
        draw_place(ax, place, x, y, shown)
    draw_facts(ax, shown, where)
    for name, x in columns.items():
        at = [spot for place, (spot, _) in where.items() if place.partition("@")[2] == name]
        wide = max((abs(spot - x) for spot in at), default=0.0) + 0.42
        ax.axvspan(x - wide, x + wide, color="#F6F6F6", lw=0, zorder=0)
        ax.text(x, -1.7, shown.tokens[name], ha="center", va="top", family="monospace", fontsize=12)
    ax.set_yticks(list(levels.values()), [str(layer) for layer in levels])
    ax.set_ylabel("layer")
    ax.set_xticks([])
    ax.set_ylim(-2.4, top + 0.6)
    ax.set_xlim(-2.2 if shown.facts else -0.9, max(columns.values()) + 1.0)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    parts = {edge[2] for edge in shown.edges}
    kinds = [*(INTO[part] for part in INTO if part in parts), *([STREAM] if "" in parts else [])]
    marks = [Line2D([], [], color=ink, lw=2, label=label) for ink, label in kinds]
    if shown.looks:
        marks.append(Line2D([], [], color=LOOKS, lw=1.4, ls=":", label="attention to the fact that is asked about"))
    ax.legend(handles=marks, loc="upper left", fontsize=7.5, borderaxespad=0.2)


def spots(shown: Shown) -> tuple[dict[str, tuple[float, float]], dict[str, float], dict[int, float]]:
    """The positions of places, of tokens with places, and the heights of layers."""
    layers = sorted({layer_of(place) for place in shown.places})
    levels = {layer: HIGH * level for level, layer in enumerate(layers)}
    ends = {edge[0].partition("@")[2] for edge in shown.edges} | {place.partition("@")[2] for place in shown.places}
    used = [name for name in shown.tokens if name in ends or name == next(reversed(shown.tokens))]
    columns: dict[str, float] = {}
    edge = 0.0
    for name in used:
        most = max((len(in_row(shown, name, layer)) for layer in layers), default=1)
        columns[name] = edge + WIDE * (max(most, 1) - 1) / 2
        edge += WIDE * (max(most, 1) - 1) + 1.35
    where = {}
    for name in used:
        for level, layer in enumerate(layers):
            row = in_row(shown, name, layer)
            for i, place in enumerate(row):
                aside = 0.14 * (1 if level % 2 else -1)  # so that arrows within a column can be distinguished
                above = 0.0 if place.startswith("a") else BEHIND  # an MLP reads the output of its layer's heads
                where[place] = (columns[name] + WIDE * (i - (len(row) - 1) / 2) + aside, levels[layer] + above)
    return where, columns, levels


def in_row(shown: Shown, name: str, layer: int) -> list[str]:
    """The places at one token in one layer, the MLP last."""
    here = [place for place in shown.places if place.partition("@")[2] == name and layer_of(place) == layer]
    return sorted(here, key=lambda place: (not place.startswith("a"), place))


def draw_place(ax: Axes, place: str, x: float, y: float, shown: Shown) -> None:
    """Draw a box with a place's name: blue for heads, grey for MLPs, none for inputs and logits."""
    if place == "logits" or place.startswith("input@"):
        word = "answer" if place == "logits" else "embedding"
        ax.text(x, y, word, ha="center", va="center", fontsize=8, style="italic", zorder=3)
        return
    head = place.startswith("a")
    box: dict[str, Any] = {"boxstyle": "round,pad=0.28", "facecolor": "#E8F1FA" if head else "#F0F0F0"}
    box |= {"edgecolor": PALETTE[0] if head else GREY, "lw": 1.2}
    ax.text(x, y, name_of(place), ha="center", va="center", fontsize=8, bbox=box, zorder=3)


def draw_edges(ax: Axes, shown: Shown, where: Mapping[str, tuple[float, float]]) -> None:
    """Draw an arrow per edge, wider for higher scores."""
    most = max((abs(edge[3]) for edge in shown.edges), default=1.0) or 1.0
    for sender, receiver, part, score in shown.edges:
        ink = INTO[part][0] if part else STREAM[0]
        bend = {"q": 0.08, "k": 0.16, "v": -0.08}.get(part, 0.0)
        share = min(1.0, abs(score) / most)
        arrow = {
            "arrowstyle": "-|>,head_length=0.35,head_width=0.16",
            "color": ink,
            "lw": 0.5 + 2.8 * share**0.7,
            "alpha": 0.35 + 0.6 * share**0.5,
            "shrinkA": 9,
            "shrinkB": 9,
            "connectionstyle": f"arc3,rad={bend}",
        }
        ax.annotate("", where[receiver], where[sender], arrowprops=arrow, zorder=1)


def draw_facts(ax: Axes, shown: Shown, where: Mapping[str, tuple[float, float]]) -> None:
    """Draw the facts at the left, and dotted lines to the heads that attend to them."""
    if not shown.facts:
        return
    ax.text(-1.75, -1.7, shown.facts, ha="center", va="bottom", family="monospace", fontsize=12, zorder=3)
    for place, attention in shown.looks.items():
        if place in where:
            arrow: dict[str, Any] = {
                "arrowstyle": "-|>",
                "color": LOOKS,
                "lw": 0.6 + 3 * attention,
                "ls": ":",
                "shrinkB": 12,
            }
            arrow |= {"connectionstyle": "arc3,rad=-0.12", "alpha": 0.9}
            ax.annotate("", where[place], (-1.35, -0.8), arrowprops=arrow, zorder=1)


def shown(report: Mapping[str, Any]) -> Shown:
    """The content of the picture of a report."""
    asks, edges = report["asks"], [(*edge["ends"], edge["score"]) for edge in report["edges"]]
    return Shown(
        [one["place"] for one in report["places"]],
        edges,
        dict(zip(asks["names"], map(repr, asks["tokens"]), strict=True)),
        {one["place"]: seen for one in report["places"] if (seen := looked_at(one)[1])},
        asks["facts"].rpartition("\n")[0],
    ).on_the_way()
