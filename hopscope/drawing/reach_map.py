"""The map of theorem 1: which pieces of its chain each position holds, and which it may (Musat, ICLR 2025, section 5).

There is a panel per model and layer, with a row per role and a column per piece. The colour is how often a probe names
the right candidate, from chance up. A dot marks accuracy significantly above chance. The line encloses what the
information-flow model allows. A red square marks a violation: decoded, but not allowed. A grey square is no violation,
because the mask lets other chains be excluded there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from pandas import DataFrame

from hopscope.drawing.attention_maps import add_scale
from hopscope.drawing.style import GREY, PALETTE, Picture, picture, styled

MAP = LinearSegmentedColormap.from_list("from chance to certainty", ["#f4f4f4", "#8fc1e3", PALETTE[0], "#08304f"])
OUTLINE, BREACH = "black", PALETTE[1]
MOST_STREAMS = 9


@styled
def reach_map(table: DataFrame, names: Sequence[str]) -> Picture:
    """Panels of decoded pieces, with a row per model and a column per residual stream.

    If there are more than `MOST_STREAMS` streams, those after which the allowed reach no longer grows are left out,
    except for the last.

    Args:
        table: from `hopscope.probes.reach.probe`, with a column `name`. Rows of the same name, layer, role and piece
            (seeds) are averaged; a piece then counts as decoded if any of them decodes it.
        names: the models to draw, from top to bottom.
    """
    parts = {name: table[table["name"] == name] for name in names}
    streams = {name: shown_streams(part) for name, part in parts.items()}
    n_columns = max(map(len, streams.values()))
    side = [0.24 * part["role"].nunique() + 0.3 for part in parts.values()]
    widest = max(part["piece"].nunique() for part in parts.values())
    figure = picture(n_columns * (0.27 * widest + 0.12) + 2.6, sum(side) + 1.5)
    grid = figure.add_gridspec(len(parts), n_columns, height_ratios=side)
    image = None
    for row, (name, part) in enumerate(parts.items()):
        for column, layer in enumerate(streams[name]):
            ax = figure.add_subplot(grid[row, column])
            image = show_stream(ax, part[part["layer"] == layer], left=column == 0)
            if row == 0 or streams[name] != streams[names[row - 1]]:
                ax.set_title("embedding" if layer == 0 else f"after layer {layer - 1}", fontsize=8.5)
            if column == 0:
                ax.set_ylabel(label(name, part), rotation=0, ha="right", va="center", labelpad=6, fontweight="bold")
    add_scale(figure, image, "candidate named rightly")
    explain(figure, table[table["name"].isin(names)])
    return figure


def shown_streams(part: DataFrame) -> list[int]:
    """The layers whose streams are drawn."""
    layers = sorted(part["layer"].unique().tolist())
    if len(layers) <= MOST_STREAMS:
        return layers
    reach = part.groupby("layer")["allowed"].sum()
    grown = reach.index[reach == reach.max()].min()
    return [*[layer for layer in layers if layer <= grown + 1][: MOST_STREAMS - 1], layers[-1]]


def label(name: str, part: DataFrame) -> str:
    """A model's name, broken into lines, with the number of seeds if there are several."""
    n_seeds = part["seed"].nunique() if "seed" in part else 1
    return name.replace(", ", "\n") + (f"\n{n_seeds} seeds" if n_seeds > 1 else "")


def show_stream(ax: Axes, cells: DataFrame, left: bool) -> object:
    """Draw one panel."""
    roles, pieces = list(dict.fromkeys(cells["role"])), list(dict.fromkeys(cells["piece"]))
    values = {
        name: cells.groupby(["role", "piece"])[name].mean().unstack().loc[roles, pieces].to_numpy()
        for name in ("accuracy", "allowed", "excludable", "decoded")
    }
    allowed, decoded = values["allowed"] > 0, values["decoded"] > 0
    floor = float(cells["floor"].iloc[0])
    image = ax.imshow(values["accuracy"], cmap=MAP, vmin=floor, vmax=1, interpolation="nearest", aspect="auto")
    enclose(ax, allowed)
    for row, column in numpy.argwhere(decoded):
        dark = values["accuracy"][row, column] > (1 + floor) / 2
        ax.plot(column, row, "o", ms=2.6, color="white" if dark else "black", mew=0)
        if not allowed[row, column]:
            tint = GREY if values["excludable"][row, column] else BREACH
            ax.plot(column, row, "s", ms=11, mfc="none", mec=tint, mew=2, clip_on=False, zorder=4)
    ax.tick_params(length=0, pad=2)
    ax.set_xticks(range(len(pieces)), [f"${piece[0]}_{{{piece[1:]}}}$" for piece in pieces], fontsize=7.5)
    ax.set_yticks(range(len(roles)), roles if left else [""] * len(roles), fontsize=7, fontfamily="monospace")
    ax.spines[:].set_visible(False)
    return image


def enclose(ax: Axes, region: numpy.ndarray) -> None:
    """Draw a line around a set of cells."""
    padded = numpy.pad(region, 1)
    for row, column in numpy.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1]):
        edge(ax, [column - 0.5, column + 0.5], [row - 0.5, row - 0.5])
    for row, column in numpy.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1]):
        edge(ax, [column - 0.5, column - 0.5], [row - 0.5, row + 0.5])


def edge(ax: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    ax.plot(x, y, color=OUTLINE, lw=1.4, solid_capstyle="projecting", clip_on=False, zorder=3)


def explain(figure: Picture, table: DataFrame) -> None:
    """Add the title and the legend."""
    marks = [
        Line2D([], [], color=OUTLINE, lw=1.4, label="allowed by the information-flow model"),
        Line2D([], [], ls="", marker="o", ms=4, color="black", label="decoded, above chance"),
        Line2D([], [], ls="", marker="s", ms=9, mfc="none", mec=BREACH, mew=2, label="breach: decoded, not allowed"),
    ]
    if (table["decoded"] & table["excludable"]).any():
        marks.append(Line2D([], [], ls="", marker="s", ms=9, mfc="none", mec=GREY, mew=2, label="by exclusion"))
    figure.legend(handles=marks, loc="outside lower left", ncols=len(marks), fontsize=8)
    figure.suptitle(
        "Which pieces of its chain does a position hold, and which may it?\n", x=0.01, ha="left", fontsize=11.5
    )
    figure.text(
        *(0.01, 1 - 0.34 / figure.get_figheight()),
        f"Rows: positions of a chain. Columns: its symbols x and its pairs' places p. Chance is "
        f"{table['floor'].iloc[0]:.2g}. Layers count from 0.",
        fontsize=8,
        color=GREY,
        va="center",
    )
