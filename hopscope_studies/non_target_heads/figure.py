"""The figure of `non_target_heads`: training, the head's answers by condition, and the effects of its directions."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope_studies.non_target_heads.cells import CONDITIONS

LABELS = {name: condition.words for name, condition in CONDITIONS.items()}
#: Condition, name of the measurement, and label.
SAID = (
    ("together", "non-target among middles", "both heads, same tokens"),
    ("alone", "probe among middles", "head end alone, other fitted"),
    ("unrelated", "non-target among middles", "both heads, other tokens"),
    ("ordered", "non-target among middles", "both heads, first pairs first"),
    ("by hand", "non-target among middles", "by hand"),
)
CHANGED = (
    ("end of two", "as it is"),
    ("end, random directions cut", "8 random directions cut"),
    ("end, middle's directions cut", "8 of middle's cut"),
    ("end follows a random change", "follows a random change"),
    ("end follows the exchanged middle", "follows the exchange"),
)


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy over training; preference for the right middle; head `end` under changes, for both orders of pairs."""
    shown = picture(11.5, 3.8)
    courses, said, changed = shown.subplots(1, 3, width_ratios=[1, 1, 1.1]).tolist()
    draw_courses(courses, table)
    draw_rows(
        said,
        [(table[(table.condition == c) & (table.name == n) & (table.kind == "end")], words) for c, n, words in SAID],
        "At tag two: the right one preferred",
    )
    said.axvline(1 / 3, color=GREY, lw=0.8, ls="--")
    draw_changes(changed, table)
    return shown


def draw_courses(ax: Axes, table: DataFrame) -> None:
    """Draw the accuracy over training, with a line for each run."""
    curves = table[table.kind == "curve"]
    for index, (name, words) in enumerate(LABELS.items()):
        run_lines(ax, curves[curves.condition == name], color=colour(index), label=words, lw=0.9, alpha=1)
    ax.set(xlabel="optimizer steps", ylabel="accuracy on what is asked", title="Training, each run")
    ax.legend(fontsize=7)


def draw_rows(ax: Axes, rows: list[tuple[DataFrame, str]], title: str) -> None:
    """Draw a row for each measurement, with a mark per seed."""
    for place, (part, _) in enumerate(rows):
        ax.plot(part.value, numpy.full(len(part), place), "o", color=colour(place), ms=4, alpha=0.7)
    name_rows(ax, [words for _, words in rows])
    ax.set(xlim=(-0.03, 1.03), xlabel="share of sequences", title=title)


def draw_changes(ax: Axes, table: DataFrame) -> None:
    """Draw head `end` under each change, with pairs in any order and with first pairs first."""
    ends = table[table.kind == "end"]
    for index, (condition, words) in enumerate((("together", "any order"), ("ordered", "first pairs first"))):
        for place, (name, _) in enumerate(CHANGED):
            part = ends[(ends.condition == condition) & (ends.name == name)]
            where = numpy.full(len(part), place + 0.2 * index - 0.1)
            ax.plot(part.value, where, "o", color=colour(3 * index), ms=4, alpha=0.7, label="_" if place else words)
    name_rows(ax, [words for _, words in CHANGED])
    ax.set(xlim=(-0.03, 1.03), xlabel="share of sequences", title="Head end at tag two, by change")
    ax.legend(fontsize=7)
