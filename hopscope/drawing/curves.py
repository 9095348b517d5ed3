"""Losses over training: one line per hop, read against its baselines (after Musat, ICLR 2025, figures 4 and 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled


@styled
def hop_curves(table: DataFrame, hop_names: Sequence[str], baselines: Mapping[str, float]) -> Figure:
    """Validation loss of each hop over the steps of one run, the training loss faint behind.

    Args:
        table: `Run.metrics`: columns step, train_loss, val_loss, and one per hop.
        hop_names: which columns are hops, easiest first.
        baselines: loss by name; drawn as labelled lines where a logarithmic axis has them.
    """
    figure = picture(7.2, 3.8)
    ax = figure.add_subplot()
    ax.plot(table["step"], table["train_loss"], color=GREY, lw=0.8, alpha=0.5, label="training loss, all hops")
    for index, hop in enumerate(hop_names):
        ax.plot(table["step"], table[hop], color=colour(index), lw=1.8, label=hop)
    finish(ax, baselines)
    ax.legend(loc="lower left", ncols=2)
    ax.set_title("partial loss of each hop")
    return figure


@styled
def compared_curves(table: DataFrame, by: str, baselines: Mapping[str, float]) -> Figure:
    """A panel for each value of a column; in it a thin line per run and hop, and the median over runs.

    Args:
        table: tidy, as `hopscope.experiments.base.hop_curves_of` makes it: run, step, hop, hop_loss and the column.
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
            for _, curve in curves.groupby("run"):
                ax.plot(curve["step"], curve["hop_loss"], color=tint, lw=0.7, alpha=0.45)
            median = curves.groupby("step")["hop_loss"].median()
            ax.plot(median.index, median, color=tint, lw=2, label=f"{hop}, median")
        finish(ax, baselines)
        ax.legend(loc="lower left")
        ax.set_title(f"{by}: {value} ({part['run'].nunique()} runs)")
        shared = shared or ax
    return figure


def finish(ax: Axes, baselines: Mapping[str, float]) -> None:
    """Axes with units, and the baselines as lines with their names at the right."""
    ax.set_yscale("log")
    ax.set_xlabel("optimizer steps")
    ax.set_ylabel("loss")
    for name, loss in baselines.items():
        if loss > 0:
            ax.axhline(loss, color=GREY, lw=0.8, ls="--", zorder=0)
            ax.annotate(
                f"{loss:.3g}  {name}",
                (1, loss),
                xycoords=("axes fraction", "data"),
                xytext=(-2, 2),
                textcoords="offset points",
                ha="right",
                fontsize=7,
                color=GREY,
            )
