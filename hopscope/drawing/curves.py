"""Losses over training: one line per hop, with baselines (after Musat, ICLR 2025, figures 4 and 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, canvas, colour, picture, styled

#: Axis labels; other columns are labelled by their names.
WORDS = {"step": "optimizer steps", "hop_loss": "partial validation loss"}
LABEL_GAP = 0.05  # smallest distance between the names of baselines, as a share of the axis


@styled
def hop_curves(
    table: DataFrame, hop_names: Sequence[str], baselines: Mapping[str, float], *, ax: Axes | None = None
) -> Figure:
    """Validation loss of each hop over training, with a faint training loss.

    One run is a line per hop. Several runs are a thin line per run and hop, with the median over runs.

    Args:
        table: `Run.metrics`: columns step, train_loss, val_loss, and one per hop; several runs are concatenated and
            have a column run.
        hop_names: the columns of hops, easiest first.
        baselines: loss by name; those above 0 are drawn as labelled lines.
        ax: axes to draw on; by default those of a new figure.
    """
    figure, ax = canvas(ax, 7.6, 3.8)
    table = table if "run" in table else table.assign(run="")
    run_lines(ax, table, "train_loss", color=GREY, label="training loss, all hops", lw=0.8, alpha=0.5)
    for index, hop in enumerate(hop_names):
        draw_hop(ax, table, "step", hop, hop, colour(index))
    finish(ax, "step", "hop_loss")
    name_baselines(ax, baselines)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, borderaxespad=0.3)
    return figure


def draw_hop(ax: Axes, rows: DataFrame, x: str, y: str, name: str, tint: str) -> None:
    """Draw one hop's line; for several runs their thin lines and the median."""
    if rows["run"].nunique() > 1:
        run_lines(ax, rows, y, x, color=tint, label=f"{name}, median", middle="median", lw=0.7, alpha=0.45)
    else:
        run_lines(ax, rows, y, x, color=tint, label=name, lw=2, alpha=1)


def run_lines(
    ax: Axes,
    rows: DataFrame,
    y: str = "value",
    x: str = "step",
    *,
    color: str,
    label: str,
    middle: Literal["median", "mean"] | None = None,
    thick: float = 2,
    **line: Any,
) -> None:
    """Draw a thin line per run (or seed); with `middle` also their median or mean, to which the legend then refers.

    Args:
        ax: axes to draw on.
        rows: tidy, with columns run, x and y.
        y: the column on the vertical axis.
        x: the column on the horizontal axis.
        color: of all lines.
        label: the legend's text.
        middle: the statistic over runs to draw.
        thick: its line width in points.
        line: properties of the thin lines; by default `lw=0.6` and `alpha=0.4`.
    """
    style: Any = {"lw": 0.6, "alpha": 0.4, "color": color} | line
    for number, (_, run) in enumerate(rows.groupby("run")):
        ax.plot(run[x], run[y], label="_" if number or middle else label, **style)  # an underscore: not in the legend
    if middle:
        statistic = rows.groupby(x)[y].agg(middle)
        ax.plot(statistic.index, statistic, color=color, lw=thick, label=label)


def points(
    ax: Axes,
    places: Sequence[float],
    rows: DataFrame,
    ink: str,
    label: str | None = None,
    marker: str = "o",
    *,
    ms: float = 4.5,
    lw: float = 1.2,
) -> None:
    """Draw a mark at the `value` of every row, on a line from its `low` to its `high`."""
    ax.vlines(places, rows.low, rows.high, color=ink, lw=lw)
    ax.plot(places, rows.value, ls="", marker=marker, ms=ms, color=ink, label=label)


@styled
def compared_curves(
    table: DataFrame, by: str, baselines: Mapping[str, float] | None = None, x: str = "step", y: str = "hop_loss"
) -> Figure:
    """A panel for each value of a column, with a thin line per run and hop, and the median over runs.

    Args:
        table: tidy, with columns run, hop, `by`, `x` and `y`: from `hopscope.experiments.curves.hop_curves_of`, or from
            `hopscope.experiments.tables.rows_of` for changes at test time.
        by: the column.
        baselines: loss by name, drawn as lines.
        x: the column on the horizontal axis, such as the factor that activations are multiplied by.
        y: the column on the vertical axis, which is logarithmic if x is the step.
    """
    values = list(dict.fromkeys(table[by]))
    figure = picture(4.6 * len(values), 3.8)
    hops = sorted(table["hop"].unique())
    shared: Axes | None = None
    for index, value in enumerate(values):
        ax = figure.add_subplot(1, len(values), index + 1, sharey=shared)
        part = table[table[by] == value]
        for hop, rows in part.groupby("hop"):
            draw_hop(ax, rows, x, y, str(hop), colour(hops.index(hop)))
        finish(ax, x, y)
        ax.legend(loc="lower left" if x == "step" else "best")
        ax.set_title(f"{by}: {value} ({part['run'].nunique()} runs)")
        shared = shared or ax
    for ax in figure.axes:
        name_baselines(ax, baselines or {}, named=ax is figure.axes[-1])
    return figure


def finish(ax: Axes, x: str, y: str) -> None:
    """Label both axes; over training the loss is on a logarithmic axis, which shows plateaus and the approach to 0."""
    ax.set_yscale("log" if x == "step" else "linear")
    ax.set_xlabel(WORDS.get(x, x))
    ax.set_ylabel(WORDS.get(y, y))


def name_baselines(ax: Axes, baselines: Mapping[str, float], named: bool = True) -> None:
    """Draw baselines as dashed lines; names are at the right, outside, and moved apart where they would overlap."""
    losses = {name: loss for name, loss in sorted(baselines.items(), key=lambda item: -item[1]) if loss > 0}
    for loss in losses.values():
        ax.axhline(loss, color=GREY, lw=0.8, ls="--", zorder=0)
    scaled = numpy.log if ax.get_yscale() == "log" else float
    low, high = map(scaled, ax.get_ylim())
    ceiling = float("inf")
    for name, loss in losses.items() if named else ():
        ceiling = min((scaled(loss) - low) / (high - low), ceiling - LABEL_GAP)
        words = f"{loss:.3g}  {name}"
        ax.text(1.01, ceiling, words, transform=ax.transAxes, va="center", fontsize=7, color=GREY)
