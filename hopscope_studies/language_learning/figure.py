"""The figure of `language_learning`: distance and legality over training, beside n-gram models, and ends by seed."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled

DASHES = {1: ":", 2: "--", 3: "-"}  # of the n-gram models
BESIDE = {1: (5, -3), 2: (-36, -3), 3: (-2, 6)}  # where their names stand, in points


@styled
def figure(table: DataFrame) -> Figure:
    """Left: total variation from the automaton. Middle: legal symbols. Right: final values, model by model."""
    shown = picture(12.5, 3.8)
    left, middle, right = shown.subplots(1, 3)
    draw_course(left, table, "distance")
    draw_course(middle, table, "legal")
    left.set(title="Distance from the automaton", xlabel="step", ylabel="total variation", ylim=(0, 1))
    middle.set(title="Likeliest symbol is legal", xlabel="step", ylabel="share of symbols", ylim=(0, 1))
    middle.legend(fontsize=7, loc="lower right")
    draw_ends(right, table)
    return shown


def draw_course(ax: Axes, table: DataFrame, quantity: str) -> None:
    """Draw a thin line per seed and a thick mean; n-gram models are grey lines."""
    for index, kind in enumerate(dict.fromkeys(table.kind)):
        rows = table[(table.kind == kind) & (table.quantity == f"course {quantity}")]
        run_lines(ax, rows, color=colour(index), label=kind, middle="mean", thick=1.8)
    for order, style in DASHES.items():
        level = table[table.quantity == f"{order}-gram {quantity}"].value.mean()
        ax.axhline(level, color=GREY, lw=0.9, ls=style, label=f"{order}-gram model")


def draw_ends(ax: Axes, table: DataFrame) -> None:
    """Draw distance against legality, with a point per run and crosses for n-gram models."""
    for index, kind in enumerate(dict.fromkeys(table.kind)):
        rows = table[table.kind == kind].groupby(["run", "quantity"]).value.last().unstack()
        ax.plot(rows["distance"], rows["legal"], "o", color=colour(index), ms=5, label=kind)
    for order in DASHES:
        x, y = (table[table.quantity == f"{order}-gram {name}"].value.mean() for name in ("distance", "legal"))
        ax.plot(x, y, "x", color=GREY)
        ax.annotate(f"{order}-gram", (x, y), xytext=BESIDE[order], textcoords="offset points", fontsize=7, color=GREY)
    ax.set(title="At the end", xlabel="total variation", ylabel="legal", xlim=(0, 1), ylim=(0, 1))
