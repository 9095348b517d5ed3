"""Losses over training: one line per hop, read against its baselines (after Musat, ICLR 2025, figures 4 and 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.drawing.style import GREY, canvas, colour, picture, styled

LABEL_GAP = 0.05  # least distance between the baselines' names, as a share of the axis


@styled
def hop_curves(
    table: DataFrame, hop_names: Sequence[str], baselines: Mapping[str, float], *, ax: Axes | None = None
) -> Figure:
    """Validation loss of each hop over training, the training loss faint behind.

    One run is a line per hop; several are a thin line per run and hop, and the median over runs.

    Args:
        table: `Run.metrics`: columns step, train_loss, val_loss, and one per hop; for several runs, below each other,
            with a column run.
        hop_names: which columns are hops, easiest first.
        baselines: loss by name; drawn as labelled lines where a logarithmic axis has them.
        ax: where to draw; by default in a new figure.
    """
    figure, ax = canvas(ax, 7.6, 3.8)
    runs = [run for _, run in table.groupby("run", sort=False)] if "run" in table else [table]
    for index, run in enumerate(runs):
        words = "_" if index else "training loss, all hops"  # an underscore keeps a line out of the legend
        ax.plot(run["step"], run["train_loss"], color=GREY, lw=0.8, alpha=0.5, label=words)
    for index, hop in enumerate(hop_names):
        curves = [(run["step"], run[hop]) for run in runs]
        draw_hop(ax, curves, table.groupby("step")[hop].median(), hop, colour(index))
    finish(ax)
    name_baselines(ax, baselines)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5, borderaxespad=0.3)
    return figure


def draw_hop(ax: Axes, curves: Sequence[tuple[Series, Series]], median: Series, name: str, tint: str) -> None:
    """One hop's line; of several runs their thin lines, and over them the median."""
    if len(curves) > 1:
        for steps, losses in curves:
            ax.plot(steps, losses, color=tint, lw=0.7, alpha=0.45)
        name = f"{name}, median"
    ax.plot(median.index, median, color=tint, lw=2, label=name)


@styled
def compared_curves(table: DataFrame, by: str, baselines: Mapping[str, float]) -> Figure:
    """A panel for each value of a column; in it a thin line per run and hop, and the median over runs.

    Args:
        table: tidy, as `hopscope.experiments.curves.hop_curves_of` makes it: run, step, hop, hop_loss and the column.
        by: the column.
        baselines: loss by name, drawn as lines.
    """
    values = list(dict.fromkeys(table[by]))
    figure = picture(4.6 * len(values), 3.8)
    hops = sorted(table["hop"].unique())
    shared: Axes | None = None
    for index, value in enumerate(values):
        ax = figure.add_subplot(1, len(values), index + 1, sharey=shared)
        part = table[table[by] == value]
        for hop, curves in part.groupby("hop"):
            tint = colour(hops.index(hop))
            runs = [(curve["step"], curve["hop_loss"]) for _, curve in curves.groupby("run")]
            draw_hop(ax, runs, curves.groupby("step")["hop_loss"].median(), hop, tint)
        finish(ax)
        ax.legend(loc="lower left")
        ax.set_title(f"{by}: {value} ({part['run'].nunique()} runs)")
        shared = shared or ax
    for ax in figure.axes:
        name_baselines(ax, baselines, named=ax is figure.axes[-1])
    return figure


def finish(ax: Axes) -> None:
    """A logarithmic axis, on which both the plateaus near chance and the last steps to 0 can be read; names of both."""
    ax.set_yscale("log")
    ax.set_xlabel("optimizer steps")
    ax.set_ylabel("partial validation loss")


def name_baselines(ax: Axes, baselines: Mapping[str, float], named: bool = True) -> None:
    """Baselines as dashed lines, with names at the right, outside, where no curve runs; moved apart where close."""
    losses = {name: loss for name, loss in sorted(baselines.items(), key=lambda item: -item[1]) if loss > 0}
    for loss in losses.values():
        ax.axhline(loss, color=GREY, lw=0.8, ls="--", zorder=0)
    low, high = numpy.log(ax.get_ylim())
    ceiling = float("inf")
    for name, loss in losses.items() if named else ():
        ceiling = min((numpy.log(loss) - low) / (high - low), ceiling - LABEL_GAP)
        words = f"{loss:.3g}  {name}"
        ax.text(1.01, ceiling, words, transform=ax.transAxes, va="center", fontsize=7, color=GREY)
