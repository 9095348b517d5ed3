"""Attention as maps whose axes name roles (after Musat, ICLR 2025, appendix C). Layers and heads count from 0."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from hopscope.drawing.style import GREY, PALETTE, Picture, picture, styled
from hopscope.problem.roles import RELATIONS

MOST_LABELS = 48  # positions; with more, labels would be illegible
MOST_IN_ROW = 6
MOST_DETAILED = 18  # heads; with more, role maps are small and have no numbers
LONGEST_SCALE = 2.8  # inches
MAP = "Blues"
COUNTING = "Layers and heads count from 0; the paper counts from 1."


@styled
def attention_maps(patterns: Float[Tensor, "layer head query key"], labels: Sequence[str], title: str = "") -> Figure:
    """Every head's attention on one sequence, one panel each: rows attend, columns are attended to.

    Args:
        patterns: attention 0–1 (in linear attention any number, shown from −1 to 1).
        labels: the roles of the positions, such as `b value[2]`; where these do not fit, steps are shown. Lines
            separate the queries.
        title: of the figure.
    """
    n_layers, n_heads, n, _ = patterns.shape
    columns = n_heads if n_heads > 1 else min(n_layers, 4)
    rows = -(-n_layers * n_heads // columns)
    labelled = n <= MOST_LABELS
    side = max(1.4, min(3.4, 0.135 * n)) if rows * columns <= 16 else 1.4
    margin = 1.1 if labelled and side >= 2 else 0.6
    figure = picture(columns * side + margin + 0.8, rows * (side + 0.2) + margin)
    signed = float(patterns.min()) < -1e-6
    image = None
    for index in range(n_layers * n_heads):
        layer, head = divmod(index, n_heads)
        ax = figure.add_subplot(rows, columns, index + 1)
        image = ax.imshow(
            patterns[layer, head].numpy(force=True),
            cmap="RdBu" if signed else MAP,
            vmin=-1 if signed else 0,
            vmax=1,
            interpolation="nearest",
        )
        ax.set_title(f"L{layer}H{head}")
        mark_queries(ax, labels)
        left, below = index % columns == 0, index + columns >= n_layers * n_heads
        if labelled and side >= 2:
            name_axes(ax, labels, left, below)
        else:
            name_groups(ax, labels, left, below)
    add_scale(figure, image, "attention")
    add_caption(figure, title, f"Rows attend to columns. {COUNTING}")
    return figure


@styled
def mean_role_attention(
    strengths: Float[Tensor, "layer relation head query_role key_role"],
    names: Sequence[str],
    attended: Sequence[str] | None = None,
) -> Figure:
    """Mean attention from role to role, per head: within a chain above, between chains below (paper, section 9.1).

    Args:
        strengths: `hopscope.problem.roles.Roles.strengths` of each layer, stacked; NaN where no such path exists.
        names: the roles.
        attended: what paths lead to, if not the roles (`Roles.attended`).
    """
    attended = attended or names
    n_layers, _, n_heads = strengths.shape[:3]
    heads = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
    detailed = len(heads) <= MOST_DETAILED
    columns = min(len(heads), MOST_IN_ROW) if detailed else max(MOST_IN_ROW, min(n_heads, 2 * MOST_IN_ROW))
    bands = -(-len(heads) // columns)
    side = max(1.6, 0.36 * len(attended) + 0.3) if detailed else max(0.9, 0.14 * len(attended))
    figure = picture(columns * side + 2.0, 2 * bands * (side + 0.2) + 1.2)
    image = None
    for index, (layer, head) in enumerate(heads):
        band, column = divmod(index, columns)
        for r, relation in enumerate(RELATIONS):
            ax = figure.add_subplot(2 * bands, columns, (2 * band + r) * columns + column + 1)
            image = show_roles(ax, strengths[layer, r, head].numpy(force=True), detailed)
            ax.set_title(f"L{layer}H{head}  {relation} chain" if detailed else f"L{layer}H{head} {relation}")
            name_axes(ax, names, left=column == 0, below=r == 1 and index + columns >= len(heads), across=attended)
    add_scale(figure, image, "mean attention")
    grey = greyed(strengths.numpy(force=True))
    add_caption(figure, "attention from role to role", f"Rows attend to columns{grey}. {COUNTING}")
    return figure


def greyed(strengths: numpy.ndarray) -> str:
    """The caption's words about grey cells; empty if there are none."""
    return "; grey: no such path" if numpy.isnan(strengths).any() else ""


def show_roles(ax: Axes, values: numpy.ndarray, numbers: bool) -> object:
    """One head's role map, with numbers in strong cells; paths that cannot exist are grey."""
    ax.set_facecolor("#dddddd")
    image = ax.imshow(numpy.ma.masked_invalid(values), cmap=MAP, vmin=0, vmax=1, interpolation="nearest")
    for (row, column), value in numpy.ndenumerate(values):
        if numbers and value >= 0.2:
            ink = "white" if value > 0.6 else "black"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6.5, color=ink)
    return image


def name_axes(ax: Axes, labels: Sequence[str], left: bool, below: bool, across: Sequence[str] | None = None) -> None:
    """Write role names on the outer axes, in the colour of their chain; columns are named by `across`, if given."""
    ax.tick_params(length=0)
    for axis, named, wanted in ((ax.yaxis, labels, left), (ax.xaxis, across or labels, below)):
        axis.set_ticks(range(len(named)) if named else [])
        axis.set_ticklabels(named if named and wanted else [""] * len(named), fontsize=6.5, fontfamily="monospace")
    ax.tick_params(axis="x", labelrotation=90)
    chains = sorted({label.split()[0] for label in labels if " " in label and "/" not in label})
    for tick in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        chain = tick.get_text().split(" ")[0]
        if chain in chains and chain != "·":
            tick.set_color(PALETTE[chains.index(chain) % len(PALETTE)])


def groups(labels: Sequence[str]) -> list[tuple[float, str]]:
    """The middle and the name of each run of positions of one step, or of queries."""
    names = [f"step {k[1]}" if (k := re.search(r"\[(\d+)", label)) else label.split(" ")[-1] for label in labels]
    runs = [(name, [i for i, _ in run]) for name, run in itertools.groupby(enumerate(names), lambda item: item[1])]
    return [((places[0] + places[-1]) / 2, name) for name, places in runs]


def name_groups(ax: Axes, labels: Sequence[str], left: bool, below: bool) -> None:
    """Write step names on the outer axes, where there is no room for every position's role."""
    ax.tick_params(length=0)
    steps = groups(labels)
    for axis, wanted in ((ax.yaxis, left), (ax.xaxis, below)):
        axis.set_ticks([middle for middle, _ in steps])
        axis.set_ticklabels([name if wanted else "" for _, name in steps], fontsize=6.5)
    ax.tick_params(axis="x", labelrotation=90)


def add_scale(figure: Picture, image: object, label: str) -> None:
    """Add one colour bar for all panels."""
    share = min(0.6, LONGEST_SCALE / figure.get_figheight())
    bar = figure.colorbar(image, ax=figure.axes, shrink=share, aspect=25, pad=0.01)  # type: ignore[arg-type]
    bar.set_label(label)
    bar.outline.set_visible(False)  # type: ignore[operator]


def mark_queries(ax: Axes, labels: Sequence[str]) -> None:
    """Draw thin lines between facts and queries."""
    first = next((i for i, label in enumerate(labels) if label.split(" ")[-1] == "query"), 0)
    if first:
        ax.axhline(first - 0.5, color=GREY, lw=0.5)
        ax.axvline(first - 0.5, color=GREY, lw=0.5)


def add_caption(figure: Picture, title: str, caption: str) -> None:
    """Add the title above, and how to read the picture in small print below."""
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    figure.supxlabel(caption, x=0.01, ha="left", fontsize=8, color=GREY)
