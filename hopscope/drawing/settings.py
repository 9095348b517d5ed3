"""Runs that differ in one setting: each hop's final loss, and when it was learnt, with a dot per seed."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled

SPREAD = 0.1  # between hops of one setting, as a share of the distance between settings


@styled
def by_setting(table: DataFrame, column: str, label: str, guess: float | None = None) -> Figure:
    """Each hop's final loss by setting at the left, and the step at which it was learnt at the right.

    Lines join the medians.

    Args:
        table: from `hopscope.experiments.curves.endings_of`.
        column: the setting; values are shown in order of first occurrence.
        label: the setting's name.
        guess: the loss of the best guess that follows no chain, drawn as a line.
    """
    figure = picture(9.4, 3.7)
    left, right = figure.subplots(1, 2)
    values, hops = list(dict.fromkeys(table[column])), list(dict.fromkeys(table.sort_values("k").hop))
    end = 1.08 * table.steps.max()
    for index, hop in enumerate(hops):
        part = table[table.hop == hop]
        places = numpy.array([values.index(value) for value in part[column]]) + SPREAD * (index - (len(hops) - 1) / 2)
        scatter(left, places, part.loss.to_numpy(), colour(index), str(hop))
        never = part.learnt.isna().to_numpy()
        scatter(right, places, part.learnt.fillna(end).to_numpy(), colour(index), str(hop), hollow=never)
    for ax in (left, right):
        ax.set_xticks(range(len(values)), [str(value) for value in values])
        ax.set(xlabel=label, ylim=(0, None))
    left.set(ylabel="validation loss, last 100 steps", title="How each hop ended")
    right.set(ylabel="optimizer steps", title="When it was learnt (hollow: never)")
    left.axhline(0.05, color=GREY, lw=0.8, ls=":", zorder=0)
    if guess is not None:
        left.axhline(guess, color=GREY, lw=0.8, ls="--", zorder=0)
    left.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def scatter(
    ax: Axes,
    places: numpy.ndarray,
    values: numpy.ndarray,
    tint: str,
    label: str,
    hollow: numpy.ndarray | None = None,
) -> None:
    """Draw a dot per run, and a line through the medians of each place."""
    there = sorted(set(places))
    ax.plot(there, [float(numpy.median(values[places == x])) for x in there], color=tint, lw=1.4, label=label)
    open_ones = numpy.zeros(len(values), bool) if hollow is None else hollow
    ax.plot(places[~open_ones], values[~open_ones], ls="", marker="o", ms=4, color=tint, alpha=0.8)
    ax.plot(places[open_ones], values[open_ones], ls="", marker="o", ms=5, mfc="none", mec=tint)
