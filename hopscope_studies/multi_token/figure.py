"""The figure of `multi_token`: names over training, when they are learnt, near and far answers, and difficulty."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, name_rows, picture, styled

LABELS = {
    "near": "next token",
    "both": "and two ahead",
    "four": "four ahead",
    "before": "and the one before",
    "same": "and itself",
    "far": "two ahead alone",
}
HOP_LABELS = {"near": "first hop alone", "both": "both hops", "far": "second hop alone"}
#: Each set of outputs has the same colour in all panels.
COLOURS = {name: index for index, name in enumerate(LABELS)}


@styled
def figure(table: DataFrame) -> Figure:
    """Names over training, and when they are learnt; the token two ahead; both hops; the difficulty."""
    shown = picture(11.5, 6.6)
    courses, when, two, first, second, dial = shown.subplots(2, 3).flatten().tolist()
    tokens, hops = table[table.problem == "tokens"], table[table.problem == "hops"]
    medians(courses, tokens, "t+1", LABELS, "Names: the second token, from the first", "accuracy (median)")
    draw_times(when, tokens, "t+1", LABELS, "Names: when half are known")
    medians(two, tokens, "t+2", LABELS, "The token two ahead", "accuracy (median)")
    medians(first, hops, "x1", HOP_LABELS, "Retrieval: first hop", "loss (median)")
    medians(second, hops, "x2", HOP_LABELS, "Retrieval: second hop", "loss (median)")
    draw_dial(dial, table)
    return shown


def medians(ax: Axes, table: DataFrame, name: str, labels: dict[str, str], title: str, label: str) -> None:
    """Draw a faint line per run, and the median over seeds; a run that stopped keeps its last value."""
    rows = table[(table.kind == "curve") & (table.name == name)]
    for asked, words in labels.items():
        part = rows[rows.asked == asked]
        run_lines(ax, part, color=colour(COLOURS[asked]), label="_", lw=0.5, alpha=0.35)
        if len(part):
            middle = part.pivot_table(index="step", columns="run", values="value").ffill().median(axis=1)
            ax.plot(middle.index, middle, color=colour(COLOURS[asked]), lw=1.6, label=words)
    ax.set(xlabel="optimizer steps", ylabel=label, title=title)
    ax.legend(fontsize=7)


def draw_times(ax: Axes, table: DataFrame, name: str, labels: dict[str, str], title: str) -> None:
    """Draw a row per cell and a mark per seed; hollow marks are seeds that did not learn in training."""
    rows = table[(table.kind == "learnt") & (table.name == name)]
    there = [asked for asked in labels if (rows.asked == asked).any()]
    for row, asked in enumerate(there):
        part = rows[rows.asked == asked]
        done, never = part[part.value.notna()], part[part.value.isna()]
        spread = 0.4 * (numpy.arange(len(part)) / max(len(part) - 1, 1) - 0.5)
        ax.plot(done.value, row + spread[: len(done)], "o", color=colour(COLOURS[asked]), ms=3.5)
        ax.plot(never.step, row + spread[len(done) :], ">", mfc="none", color=colour(COLOURS[asked]), ms=4)
        middle = part.value.fillna(numpy.inf).median()
        if numpy.isfinite(middle):
            ax.plot([middle] * 2, [row - 0.35, row + 0.35], color=colour(COLOURS[asked]), lw=1.5)
    name_rows(ax, [labels[asked] for asked in there])
    ax.set(xlabel="optimizer steps (line: median)", title=title)


def draw_dial(ax: Axes, table: DataFrame) -> None:
    """Draw names over training with one head, by the number of name tokens and the share of stray tokens."""
    rows = table[(table.kind == "curve") & (table.name == "t+1") & (table.asked == "near") & (table.seed == 0)]
    for index, (note, part) in enumerate(rows[rows.problem == "dial"].groupby("note")):
        ax.plot(part.step, part.value, color=colour(index), lw=1.2, label=note)
    chosen = rows[rows.problem == "tokens"]
    ax.plot(chosen.step, chosen.value, color=GREY, lw=2, label="as fixed: 32 names, 0.2 stray")
    ax.set(xlabel="optimizer steps", ylabel="accuracy", title="The dial, one head, seed 0")
    ax.legend(fontsize=7)
