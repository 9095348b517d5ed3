"""Pictures of the heads of a hop: attention by role, and the connections between heads.

Both are drawn from the content of heads.json. Layers and heads count from 0.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from hopscope.drawing.attention_maps import add_caption, add_scale, greyed, name_axes, show_roles
from hopscope.drawing.style import GREY, PALETTE, Picture, picture, styled
from hopscope.problem.paths import RELATIONS

PART_COLOURS = {"query": PALETTE[0], "key": PALETTE[2], "value": PALETTE[1]}
IN_ROW = 4


@styled
def role_maps(heads: Sequence[Mapping[str, Any]], roles: Sequence[str], name: str) -> Picture:
    """Mean attention from role to role of some heads: within a chain above, between chains below."""
    columns = min(IN_ROW, len(heads))
    bands = -(-len(heads) // columns)
    side = max(1.5, 0.24 * len(roles))
    figure = picture(columns * side + 1.8, 2 * bands * (side + 0.15) + 1.0)
    image = None
    for index, head in enumerate(heads):
        band, column = divmod(index, columns)
        for r, relation in enumerate(RELATIONS):
            ax = figure.add_subplot(2 * bands, columns, (2 * band + r) * columns + column + 1)
            values = numpy.array(head["strengths"][r], dtype=float)  # None is NaN: there is no such path
            image = show_roles(ax, values, numbers=True)
            ax.set_title(f"{head['head']}  {relation} chain", fontsize=8)
            name_axes(ax, roles, left=column == 0, below=r == 1 and index + columns >= len(heads))
    add_scale(figure, image, "mean attention")
    grey = greyed(numpy.array([head["strengths"] for head in heads], dtype=float))
    words = f"Rows attend to columns{grey}. Between chains all other chains are taken together."
    add_caption(figure, f"{name}: the heads of the hop, from role to role", words)
    return figure


@styled
def stacking_diagram(report: Mapping[str, Any]) -> Picture:
    """The minimal set's heads (bold frames) and those that feed them, and the connections that the answer needs.

    A connection is drawn if cutting it harms the answer (95 % interval below 0).
    """
    heads = report["heads"]
    layers = sorted({head["layer"] for head in heads})
    place: dict[str, tuple[float, float]] = {}
    for level, layer in enumerate(layers):
        row = [head for head in heads if head["layer"] == layer]
        for column, head in enumerate(row):
            place[head["head"]] = (column - (len(row) - 1) / 2 + 0.25 * (1 - 2 * (level % 2)), float(level))
    widest = max(sum(head["layer"] == layer for head in heads) for layer in layers)
    figure = picture(3.4 + 2.4 * widest, 1.6 + 0.85 * len(layers))
    ax = figure.add_subplot()
    draw_links(ax, [row for row in report["stacking"]["cut"] if row["cut"]["high"] < 0], place)
    for head in heads:
        x, y = place[head["head"]]
        label = f"$\\bf{{{head['head']}}}$\n" + head["path"].split(" ", 1)[1].replace("->", " → ")
        box = {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "black", "lw": 1.8}
        if not head["minimal"]:
            box |= {"edgecolor": GREY, "lw": 0.6}
        ax.text(x, y, label, ha="center", va="center", fontsize=7.5, bbox=box, zorder=3)
    ax.set_yticks(range(len(layers)), [f"layer {layer}" for layer in layers])
    ax.set_ylim(-0.6, len(layers) - 0.4)
    ax.set_xlim(-0.5 - widest / 2, 0.5 + widest / 2)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    marks = [Line2D([], [], color=c, lw=2, label=f"into its {part}") for part, c in PART_COLOURS.items()]
    figure.legend(handles=marks, loc="outside lower center", ncols=3, fontsize=8)
    depth = report["depth"]
    stack = " → ".join(depth["stack"]) or "none"
    title = (
        f"{report['model']}: what stacks on what. Longest stack: {stack}; theory asks for {depth['min_layers']} layers"
    )
    figure.suptitle("\n".join(textwrap.wrap(title, int(16 * figure.get_figwidth()))), x=0.01, ha="left", fontsize=10)
    return figure


def draw_links(ax: Axes, rows: Sequence[Mapping[str, Any]], place: Mapping[str, tuple[float, float]]) -> None:
    """Draw an arrow per connection, wider the more harmful its cut."""
    worst = min((row["cut"]["mean"] for row in rows), default=-1.0)
    for row in rows:
        arrow = {
            "arrowstyle": "-|>",
            "color": PART_COLOURS[row["part"]],
            "lw": 0.6 + 2.6 * row["cut"]["mean"] / worst,
            "shrinkA": 14,
            "shrinkB": 14,
            "connectionstyle": f"arc3,rad={0.12 * (1 + list(PART_COLOURS).index(row['part']))}",
        }
        ax.annotate("", place[row["receiver"]], place[row["sender"]], arrowprops=arrow, zorder=2)
