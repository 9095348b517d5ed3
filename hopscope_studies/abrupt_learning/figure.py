"""The figures of the study."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope.experiments.long_table import values
from hopscope_studies.abrupt_learning.cells import ABRUPT, TRADE
from hopscope_studies.abrupt_learning.claims import PAIRS

SHOWN = {
    "CLA": "names a label of the context",
    "ILA1": "label to its item, layer 0",
    "TILA2": "query to its label, layer 1",
}


@styled
def figure(table: DataFrame) -> Figure:
    """The course with its progress measures; L = N by optimizer and repeats; the three nested logits."""
    shown = picture(11.5, 3.6)
    course, even, nested = shown.subplots(1, 3)
    draw_course(course, table)
    draw_even(even, table)
    draw_nested(nested, table)
    return shown


def lines(ax: Axes, rows: DataFrame, tint: str, label: str) -> None:
    """Draw a line per run, with one entry in the legend."""
    run_lines(ax, rows, color=tint, label=label, lw=0.9, alpha=0.7)


def draw_course(ax: Axes, table: DataFrame) -> None:
    """Draw accuracy and progress measures over training."""
    lines(ax, values(table, "context", "right"), "black", "right answers")
    for index, (name, words) in enumerate(SHOWN.items()):
        lines(ax, values(table, "context", "seen", name), colour(index), words)
    ax.set_ylim(0, 1.5)
    ax.set_xlabel("optimizer steps of 128 sequences")
    ax.set_title("16 labels, 4 pairs, SGD")
    ax.legend(loc="upper left")


def draw_even(ax: Axes, table: DataFrame) -> None:
    """Draw losses with as many labels as pairs."""
    for index, name in enumerate(list(ABRUPT)[1:]):
        lines(ax, values(table, name, "loss", "validation"), colour(index), ABRUPT[name].words)
    ax.axhline(math.log(PAIRS), color=GREY, lw=0.8, ls="--")
    ax.text(1, math.log(PAIRS), "ln N", transform=ax.get_yaxis_transform(), ha="right", va="bottom", color=GREY)
    ax.set_ylim(0, 2.1)
    ax.set_xlabel("optimizer steps")
    ax.set_ylabel("validation loss (nats)")
    ax.set_title("As many labels as pairs")
    ax.legend(loc="upper right")


def draw_nested(ax: Axes, table: DataFrame) -> None:
    """Draw the loss of the nested logits, by L."""
    rows = values(table, "nested", "loss")
    for index, labels in enumerate(sorted({int(name) for name in rows.name})):
        course = rows[rows.name.astype(str) == str(labels)]
        ax.plot(course.step, course.value / math.log(labels), color=colour(index), label=f"L = {labels}")
    ax.set_xlim(0, 2000)
    ax.set_xlabel("steps of gradient descent")
    ax.set_ylabel("loss over ln L")
    ax.set_title("Three nested logits, N = 8")
    ax.legend(loc="upper right")


@styled
def trade_figure(table: DataFrame) -> Figure:
    """Left: each run's accuracy from the context against that from the weights. Right: each test by condition."""
    shown = picture(11.0, 3.8)
    plane, tests = shown.subplots(1, 2, width_ratios=[1, 1.5])
    draw_plane(plane, table)
    draw_tests(tests, table)
    return shown


def draw_plane(ax: Axes, table: DataFrame) -> None:
    """Draw accuracy from the context over accuracy from the weights, a mark per run."""
    for index, (name, condition) in enumerate(TRADE.items()):
        context, weights = (values(table, name, "accuracy", test).value for test in ("IC", "IW"))
        ax.plot(weights, context, "o", color=colour(index), ms=4, label=condition.words)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("from the weights: class not shown (IW)")
    ax.set_ylabel("from the context: new classes (IC)")
    ax.set_title("Two ways of answering")
    ax.legend(loc="upper right")


def draw_tests(ax: Axes, table: DataFrame) -> None:
    """Draw a row per condition, with a mark per run and test."""
    names = [name for name in TRADE if (table.condition == name).any()]
    for index, test in enumerate(("IC", "IC2", "IW")):
        for row, name in enumerate(names):
            found = values(table, name, "accuracy", test).value
            ax.plot(
                found,
                [row + 0.2 * (index - 1)] * len(found),
                "o",
                color=colour(index),
                ms=3.5,
                label="_" if row else test,
            )
    name_rows(ax, [TRADE[name].words for name in names])
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("accuracy")
    ax.set_title("By what the data are like")
    ax.legend(loc="lower right", ncols=3)
