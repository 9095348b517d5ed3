"""The figures of the study's two experiments."""

from __future__ import annotations

import math

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope.experiments.long_table import learnt, values
from hopscope_studies.induction_formation.cells import CLAMPS, FREE

CHOSEN = 0.4 * math.log(2)  # the loss by which a phase change is timed (section 3)


@styled
def figure(table: DataFrame) -> Figure:
    """Losses and best heads over training, times by data; single heads, pairs against sums, accuracy without parts."""
    shown = picture(11.5, 6.4)
    losses, best, data, alone, pairs, parts = shown.subplots(2, 3).flatten().tolist()
    draw_losses(losses, table, list(FREE))
    draw_best(best, table)
    draw_times(data, table, {name: one.words for name, one in FREE.items()})
    data.set_title("Step of the phase change, by data")
    draw_alone(alone, table)
    draw_pairs(pairs, table)
    draw_parts(parts, table)
    return shown


@styled
def clamps_figure(table: DataFrame) -> Figure:
    """Losses under each clamp, the steps of the phase change, and the toy model."""
    shown = picture(11.5, 3.6)
    losses, times, toy = shown.subplots(1, 3, width_ratios=[1.2, 1.1, 0.95])
    draw_losses(losses, table, list(CLAMPS))
    losses.set_xscale("log")
    losses.set_xlim(left=10)
    losses.get_legend().remove()
    losses.set_title("Loss (colours: as on the right)")
    draw_times(times, table, {name: one.words for name, one in CLAMPS.items()})
    times.set_xscale("log")
    times.set_title("Step of the phase change, by clamp")
    draw_toy(toy, table)
    return shown


def draw_losses(ax: Axes, table: DataFrame, names: list[str]) -> None:
    """Draw a faint line per run, the median over seeds, and the loss of guessing."""
    for index, name in enumerate(names):
        rows = values(table, name, "loss", "validation")
        run_lines(ax, rows, color=colour(index), label="_", lw=0.5, alpha=0.35)
        middle = rows.groupby("step").value.agg(["median", "count"])
        whole = middle[middle["count"] == middle["count"].max()] if len(middle) else middle
        ax.plot(whole.index, whole["median"], color=colour(index), lw=1.6, label=name)
    for level, words in ((math.log(2), "ln 2"), (CHOSEN, "0.4 ln 2")):
        ax.axhline(level, color=GREY, lw=0.8, ls="--")
        ax.text(1.01, level, words, transform=ax.get_yaxis_transform(), ha="left", va="center", color=GREY)
    ax.set_ylim(0, 1.7)
    ax.set_xlabel("optimizer steps of 32 sequences")
    ax.set_ylabel("validation loss (nats)")
    ax.set_title("Plateau and phase change")
    ax.legend(loc="upper right")


def draw_best(ax: Axes, table: DataFrame) -> None:
    """Draw the best head of each kind over training, for free runs."""
    for index, name in enumerate(("induction", "previous token")):
        rows = values(table, "free", "seen", name)
        run_lines(ax, rows, color=colour(3 + index), label=f"best {name}", lw=0.8, alpha=0.6)
    ax.set_ylim(-0.05, 1.05)
    ax.set_xlabel("optimizer steps")
    ax.set_title("Strength of the best head")
    ax.legend(loc="upper left")


def draw_times(ax: Axes, table: DataFrame, named: dict[str, str]) -> None:
    """Draw a row per condition and a mark per seed; hollow marks are runs without a phase change."""
    names = [name for name in named if len(learnt(table, name))]
    for row, name in enumerate(names):
        rows = values(table, name, "learnt")
        done, never = rows[rows.value.notna()], rows[rows.value.isna()]
        spread = 0.3 * (numpy.arange(len(rows)) / max(len(rows) - 1, 1) - 0.5)
        ax.plot(done.value, row + spread[: len(done)], "o", color=colour(row), ms=3.5)
        ax.plot(never.step, row + spread[len(done) :], ">", mfc="none", color=colour(row), ms=4)
        if len(done):
            ax.plot([done.value.median()] * 2, [row - 0.3, row + 0.3], color=colour(row), lw=1.5)
    name_rows(ax, [named[name] for name in names])
    ax.set_xlabel("optimizer steps (line: median)")


def draw_alone(ax: Axes, table: DataFrame) -> None:
    """Draw each head's strength, and how often it is right alone."""
    rows = [values(table, "free", kind).set_index(["run", "name"]).value for kind in ("strength", "alone")]
    both = DataFrame(dict(zip(("strength", "alone"), rows, strict=True))).reset_index() if len(rows[0]) else DataFrame()
    for index, (_, part) in enumerate(both.groupby("run")) if len(both) else ():
        ax.plot(part.strength, part.alone, "o", color=colour(index), ms=3.5)
    ax.axhline(1, color=GREY, lw=0.8, ls="--")
    ax.set_xlabel("induction strength of a head")
    ax.set_ylabel("accuracy of that head alone")
    ax.set_title("Heads alone (colour: seed)")


def draw_pairs(ax: Axes, table: DataFrame) -> None:
    """Plot the joint margin of each pair of heads against the sum of their single margins, all relative to no head."""
    for index, (_, part) in enumerate(values(table, "free", "margin").groupby("run")):
        margin = part.set_index("name").value
        gains = margin - margin["none"]
        pairs = [name for name in gains.index if " " in name]
        ax.plot([gains[name.split()].sum() for name in pairs], gains[pairs], "o", color=colour(index), ms=2)
    ax.axline((0, 0), slope=1, color=GREY, lw=0.8, ls="--")
    ax.set_xlabel("sum of two heads' margins")
    ax.set_ylabel("margin of the two together")
    ax.set_title("Heads add up")


def draw_parts(ax: Axes, table: DataFrame) -> None:
    """Draw the accuracy of the whole model, and without parts of it."""
    rows = values(table, "free", "accuracy")
    names = list(dict.fromkeys(rows.name))
    for row, name in enumerate(names):
        found = rows[rows.name == name].value
        ax.plot(found, numpy.full(len(found), row), "o", color=colour(row), ms=4)
    ax.axvline(0.5, color=GREY, lw=0.8, ls="--")
    ax.set_xlim(0, 1.03)
    name_rows(ax, names)
    ax.set_xlabel("accuracy")
    ax.set_title("What it is made of")


def draw_toy(ax: Axes, table: DataFrame) -> None:
    """Draw the steps until the loss is halved, by which vectors are clamped."""
    names = ("none", "c", "bc")
    rows = values(table, "toy", "toy")
    for place, name in enumerate(names):
        found = rows[rows.name == name].value
        ax.plot(numpy.full(len(found), place), found, "o", color=colour(place), ms=3.5)
    ax.set_yscale("log")
    ax.set_xticks(range(len(names)), ["none", "one", "two"])
    ax.set_xlim(-0.5, 2.5)
    ax.set_xlabel("vectors clamped")
    ax.set_ylabel("steps until the loss is halved")
    ax.set_title("A product of three vectors")
