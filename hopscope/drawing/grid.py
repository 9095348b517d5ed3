"""Numbers as a grid of coloured cells: effects of components, readings of streams, which heads read which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopscope.drawing.attention_maps import add_caption, add_scale
from hopscope.drawing.style import picture, styled

WRITTEN = 200  # cells; with more, numbers are not written
LEAST = 5e-3  # share of the largest number; smaller numbers are written as 0


@styled
def grids(
    panels: dict[str, numpy.ndarray],
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    *,
    texts: Sequence[Sequence[str]] | None = None,
    title: str = "",
    caption: str = "",
) -> Figure:
    """Panels of one size, each a grid of numbers, with one scale for all; negative numbers are red, NaN is grey.

    Args:
        panels: arrays (row, column) by title.
        rows: names of rows, the first on top.
        columns: names of columns.
        label: of the scale.
        texts: the texts of cells; by default their numbers, if there are few.
        title: of the figure.
        caption: how to read it.
    """
    width, height = max(2.2, 0.42 * len(columns) + 1.0), max(1.2, 0.26 * len(rows) + 0.5)
    figure = picture(min(16, width * len(panels) + 1.4), min(14, height) + 0.9)
    values = numpy.stack(list(panels.values()))
    bound = float(numpy.nanmax(numpy.abs(values), initial=0)) or 1.0
    signed = bool(numpy.nanmin(values, initial=0) < 0)
    image = None
    for index, (name, panel) in enumerate(panels.items()):
        ax = figure.add_subplot(1, len(panels), index + 1)
        ax.set_facecolor("#dddddd")
        colours: Any = {"cmap": "RdBu" if signed else "Blues", "vmin": -bound if signed else 0, "vmax": bound}
        image = ax.imshow(numpy.ma.masked_invalid(panel), aspect="auto", interpolation="nearest", **colours)
        ax.set_title(name)
        ax.tick_params(length=0)
        ax.set_xticks(range(len(columns)), columns, fontsize=6.5, rotation=90)
        ax.set_yticks(range(len(rows)), rows if not index else [""] * len(rows), fontsize=6.5)
        if texts or panel.size <= WRITTEN:
            write(ax, panel, texts, bound)
    add_scale(figure, image, label)
    add_caption(figure, title, caption)
    return figure


def write(ax: Axes, panel: numpy.ndarray, texts: Sequence[Sequence[str]] | None, bound: float) -> None:
    """Write numbers, or other texts, into the cells of a grid."""
    for (row, column), value in numpy.ndenumerate(panel):
        if not numpy.isnan(value):
            number = "0" if abs(value) < LEAST * bound else f"{value:.2g}"
            text = texts[row][column] if texts else number
            ink = "white" if abs(value) > 0.6 * bound else "black"
            ax.text(column, row, text, ha="center", va="center", fontsize=6, color=ink)
