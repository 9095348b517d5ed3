"""The figure of `false_demonstrations`: answers by layer, heads, and accuracy without parts."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope.experiments.long_table import values
from hopscope_studies.false_demonstrations.demonstrations import KINDS

LEFT = (
    ("whole", "whole"),
    ("without heads", "without the two\nfalse induction heads"),
    ("without others", "without two others"),
    ("without late attention", "without late attention"),
    ("without late MLPs", "without late MLPs"),
)


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy after each layer by context; heads by layer and score; accuracies without parts."""
    shown = picture(11.5, 3.6)
    layers, heads, left = shown.subplots(1, 3, width_ratios=[1.2, 0.8, 1.2]).tolist()
    draw_layers(layers, table)
    draw_heads(heads, table)
    draw_left(left, table)
    return shown


def draw_layers(ax: Axes, table: DataFrame) -> None:
    """Draw a faint line per run, and the mean."""
    for index, kind in enumerate(KINDS):
        rows = values(table, "trained", "lens", kind)
        for _, run in rows.groupby("run"):
            ax.plot(run.step, run.value, color=colour(index), lw=0.5, alpha=0.4)
        middle = rows.groupby("step").value.mean()
        ax.plot(middle.index, middle, "o-", ms=3.5, color=colour(index), lw=1.6, label=f"{kind} labels")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layers read", ylabel="accuracy (the class's own label)", ylim=(0, 1.03), title="After each layer")
    ax.legend(loc="lower left")


def draw_heads(ax: Axes, table: DataFrame) -> None:
    """Draw every head of every run; silenced heads are filled."""
    scored = values(table, "trained", "score")
    chosen = values(table, "trained", "chosen")
    picked = set(zip(chosen.run, chosen.name, strict=True))
    for index, (run, rows) in enumerate(scored.groupby("run")):
        place = numpy.array([int(name[1:].split("H")[0]) + 1 for name in rows.name]) + 0.05 * (index - 3.5)
        filled = numpy.array([(run, name) in picked for name in rows.name])
        ax.plot(place, rows.value, "o", ms=4, mfc="none", color=colour(index))
        ax.plot(place[filled], rows.value[filled], "o", ms=4, color=colour(index))
    ax.axhline(0, color=GREY, lw=0.8, ls="--")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="layer", ylabel="attention to labels of the class, minus others", title="Heads (filled: silenced)")


def draw_left(ax: Axes, table: DataFrame) -> None:
    """Draw a row per ablated part, with a mark per run."""
    for index, kind in enumerate(("true", "permuted")):
        for row, (name, _) in enumerate(LEFT):
            found = values(table, "trained", name, kind).value
            ax.plot(found, [row + 0.2 * index - 0.1] * len(found), "o", ms=3.5, color=colour(index),
                    label="_" if row else f"{kind} labels")  # fmt: skip
    name_rows(ax, [words for _, words in LEFT])
    ax.set(xlim=(0, 1.03), xlabel="accuracy", title="Without parts of it")
    ax.legend(loc="lower center")
