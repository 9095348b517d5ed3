"""The figure of `h_minus_one_heads`: losses over training and at the end, gates by kind, cost of dropping heads."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled

WAYS = ("plain", "dropout", "jointly", "in turn")
COLOURS = {way: colour(index) for index, way in enumerate(WAYS)}


@styled
def figure(table: DataFrame) -> Figure:
    """Held-out losses over training; at the end by kind; mean gates; costs of dropping a head."""
    shown = picture(10.0, 7.0)
    axes = shown.subplots(2, 2).flatten()
    ends = table[table.kind == "end"]
    courses(axes[0], table[table.kind == "curve"], float(ends.best.min()))
    endings(axes[1], ends)
    shares(axes[2], table[(table.kind == "gate") & (table.trained == "in turn")])
    costs(axes[3], ends[ends.cost_least.notna()])
    return shown


def courses(ax: Axes, curves: DataFrame, best: float) -> None:
    """Draw the losses of each run over training."""
    for way in WAYS:
        run_lines(ax, curves[curves.trained == way], "loss", color=COLOURS[way], label=way, lw=1, alpha=1)
    ax.axhline(best, color=GREY, lw=0.8, ls="--")
    ax.set(xlabel="steps", ylabel="held-out loss (nats)", title="Both kinds together, each run")
    ax.legend(fontsize=7)


def endings(ax: Axes, ends: DataFrame) -> None:
    """Draw final losses of each run: all, in context and from memory."""
    for x, column in enumerate(("loss", "in_context", "by_heart")):
        for index, way in enumerate(WAYS):
            found = ends[ends.trained == way][column]
            spot = x + 0.18 * (index - 1.5)
            ax.plot([spot] * len(found), found, "o", ms=4, color=COLOURS[way], label=None if x else way)
    ax.set_xticks(range(3), ["all", "in context", "by heart"])
    ax.set(ylabel="final loss on fresh sequences (nats)", title="The end")
    ax.legend(fontsize=7)


def shares(ax: Axes, gates: DataFrame) -> None:
    """Draw the mean shares of the experts trained in turn, by layer, head and kind."""
    for index, (kind, part) in enumerate(gates.groupby("of")):
        spot = part.layer * (part["head"].max() + 2) + part["head"] + 0.2 * (index - 0.5)
        ax.plot(spot, part.share, "o", ms=4, color=colour(index), label=str(kind))
    if len(gates):
        heads = int(gates["head"].max()) + 1
        ax.axhline(1 / heads, color=GREY, lw=0.8, ls="--")
        spots = [(layer, head) for layer in sorted(gates.layer.unique()) for head in range(heads)]
        ax.set_xticks([n * (heads + 1) + h for n, h in spots], [f"L{n:.0f}H{h}" for n, h in spots], fontsize=6)
    ax.set(xlabel="expert without this head", ylabel="mean share", title="Gates trained in turn, each run")
    ax.legend(fontsize=7)


def costs(ax: Axes, ends: DataFrame) -> None:
    """Draw the cost of dropping the lightest head over that of dropping a random head."""
    for way in WAYS:
        part = ends[ends.trained == way]
        if len(part):
            ax.plot(part.cost_random, part.cost_least, "o", ms=4, color=COLOURS[way], label=way)
    if len(ends):
        top = float(ends.cost_random.max())
        ax.plot([0, top], [0, top], color=GREY, lw=0.8, ls="--")
    ax.set(xlabel="cost of a random head (nats)", ylabel="cost of the lightest", title="One head removed")
    ax.legend(fontsize=7)
