"""The figure of `memories`: recall curves, capacities of matrices and of MLPs, and what overlap costs."""

from __future__ import annotations

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.memories.claims import LAWS, overlapping, searches

LOADS = (0.25, 0.5, 1, 2, 4)  # pairs per width of the recall curves


@styled
def figure(table: DataFrame) -> Figure:
    """Recall curves, capacities of matrices and of MLPs, and the cost of overlap."""
    shown = picture(10.0, 7.4)
    curves, matrices, mlps, overlap = shown.subplots(2, 2).flatten()
    recall_curves(curves, table)
    for index, memory in enumerate(("outer_product", "linear")):
        points(matrices, searches(table, memory), colour(index), memory.replace("_", " "))
    law_line(matrices, searches(table, "linear"), 1 / 1.3, "N log N = d²/1.3", grows=True)
    matrices.set(xscale="log", yscale="log", xlabel="d²", ylabel="N, pairs held", title="What a d × d matrix holds")
    for index, n_classes in enumerate((0, 32)):
        found = searches(table, "mlp", n_classes)
        points(mlps, found, colour(index), "32 answers" if n_classes else "every input its own answer")
        grows, constant = LAWS["mlp", n_classes]
        words = "N log N = m d/0.35" if grows else "N = m d/1.2"
        law_line(mlps, found, constant, words, grows, "-." if n_classes else "--")
    mlps.set(xscale="log", yscale="log", xlabel="m d", ylabel="N, pairs held", title="What an MLP holds")
    overlap_panel(overlap, table)
    for ax in (curves, matrices, mlps, overlap):
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=7)
    return shown


def recall_curves(ax: Axes, table: DataFrame) -> None:
    """Draw the recall of outer products over n / d (dots), and its expected value (lines)."""
    rows = table[(table.kind == "recall") & (table.memory == "outer_product") & (table.overlap == 0)]
    for index, d in enumerate(sorted(rows.d.unique())):
        part = rows[rows.d == d]
        ax.plot(part.n / part.d, part.recall, "o", ms=4, color=colour(index), alpha=0.7)
        line = part.drop_duplicates("n").sort_values("n")
        ax.plot(line.n / line.d, line.expected, "-", lw=1.0, color=colour(index), label=f"d = {d:.0f}")
    ax.set(xscale="log", ylim=(0, 1.03), xlabel="pairs / d", ylabel="recall", title="Outer products (lines: expected)")
    ax.set_xticks(LOADS, [f"{load:g}" for load in LOADS])
    ax.set_xticks([], minor=True)


def points(ax: Axes, found: DataFrame, tint: str, label: str) -> None:
    ax.plot(found["size"], found.capacity, "o", ms=4, color=tint, alpha=0.8, label=label)


def law_line(ax: Axes, found: DataFrame, constant: float, words: str, grows: bool, style: str = "--") -> None:
    """Draw the published law over the measured range."""
    known = found.capacity.dropna()
    if len(known):
        n = numpy.geomspace(max(2.0, known.min() / 1.3), known.max() * 1.3, 50)
        ax.plot(n * (numpy.log(n) if grows else 1) / constant, n, style, lw=1.0, color=GREY, label=f"{words} (paper)")


def overlap_panel(ax: Axes, table: DataFrame) -> None:
    """Draw recall by mean inner product of the embeddings."""
    for index, (memory, part) in enumerate(overlapping(table).groupby("memory")):
        means = part.groupby("overlap").recall.mean()
        style = ("-o", "-s", "--^")[index]  # two of them may coincide
        ax.plot(means.index, means, style, ms=4, lw=1.2, color=colour(index), label=str(memory).replace("_", " "))
    ax.set(ylim=(0, 1.03), xlabel="mean inner product of two embeddings", ylabel="recall", title="d pairs that overlap")
