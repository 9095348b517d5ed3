"""The figure of `kv_shift`: induction over training, learnt blends, n-grams, hops by depth."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled

LABELS: dict[Any, str] = {
    ("kv", 1): "KV shift, 1 layer",
    ("kv drawn", 1): "KV shift, 1 layer, drawn",
    ("plain", 1): "plain, 1 layer",
    ("plain", 2): "plain, 2 layers",
    ("kv", 2): "KV shift, 2 layers",
}
#: Each cell keeps its colour in all panels.
COLOURS: dict[Any, int] = {cell: index for index, cell in enumerate(LABELS)}


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy over training; blends at the end; n-gram losses; final losses by hop, of both tasks."""
    shown = picture(11.0, 7.0)
    axes = shown.subplots(2, 3).flatten()
    curves = table[table.kind == "curve"]
    courses(axes[0], curves[curves.part == "induction"], "accuracy", "Induction, each run", "accuracy")
    scalars(axes[1], table[(table.kind == "end") & (table.part == "induction")])
    courses(axes[2], curves[curves.part == "n-gram"], "hop_loss", "3-gram text, each run", "loss (nats)")
    for ax, part, title in ((axes[3], "letters", "k-hop induction"), (axes[4], "chains", "Retrieval, 3 hops")):
        by_hop(ax, table[(table.kind == "hop") & (table.part == part) & (table.k > 0)], title)
    depths(axes[5], table[(table.kind == "theory") & (table.order == "deepest_first") & (table.hops <= 16)])
    return shown


def courses(ax: Axes, curves: DataFrame, value: str, title: str, label: str) -> None:
    """Draw a line for each run."""
    for cell, part in curves.groupby(["attention", "layers"]):
        run_lines(ax, part, value, color=colour(COLOURS[cell]), label=LABELS[cell], lw=1, alpha=1)
    ax.set(xlabel="steps", ylabel=label, title=title)
    ax.legend(fontsize=7)


def scalars(ax: Axes, ends: DataFrame) -> None:
    """Draw the final blends of keys and values: the weight of this token against that of the previous one."""
    for (attention, layers), part in ends[ends.a.notna()].groupby(["attention", "layers"]):
        drawn = colour(COLOURS[attention, layers])
        ax.plot(part.a, part.a_before, "o", color=drawn, label=f"keys, {LABELS[attention, layers]}")
        ax.plot(part.b, part.b_before, "^", color=drawn, label=f"values, {LABELS[attention, layers]}")
    ax.axhline(0, color=GREY, lw=0.6)
    ax.axvline(0, color=GREY, lw=0.6)
    ax.set(xlabel="this token", ylabel="the token before", title="Learnt blends")
    ax.legend(fontsize=6)


def by_hop(ax: Axes, hops: DataFrame, title: str) -> None:
    """Draw the final loss of each hop by cell, divided by a guess's loss."""
    for cell, part in hops.groupby(["attention", "layers"]):
        share = (part.loss / part.chance).groupby(part.k)
        ax.plot(part.k, part.loss / part.chance, "o", ms=3, color=colour(COLOURS[cell]))
        ax.plot(sorted(part.k.unique()), share.mean(), "-", lw=1.3, color=colour(COLOURS[cell]), label=LABELS[cell])
    ax.axhline(0.5, color=GREY, lw=0.8, ls="--")
    ax.set(xlabel="hop", ylabel="loss / a guess's loss", title=title)
    ax.set_xticks(sorted(hops.k.unique()))
    ax.legend(fontsize=7)


def depths(ax: Axes, rows: DataFrame) -> None:
    """Draw the exact minimum depths."""
    for index, (mask, part) in enumerate(rows.groupby("mask")):
        words = "causal" if mask == "causal" else "no mask"
        ax.step(part.hops, part.formula, where="mid", color=colour(index), label=f"KV shift, {words}")
        if mask == "causal":
            ax.step(part.hops, part.formula + 1, where="mid", color=GREY, label="plain, causal")
    ax.set(xlabel="hops", ylabel="layers", title="Fewest layers (exact)")
    ax.legend(fontsize=7)
