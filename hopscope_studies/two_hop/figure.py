"""The figure of `two_hop`: losses over training by condition, probabilities of answers, and distractors."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.two_hop.cells import CONDITIONS
from hopscope_studies.two_hop.claims import GUESS, curve

SHOWN = ("prior", "KV shift", "end alone", "KV shift, end alone", "no prior", "two layers")
HOW = {"right end": 0, "other ends": 1, "middles": 2}


@styled
def figure(table: DataFrame) -> Figure:
    """Loss of x2 by condition; probabilities of answers with every hop asked, or one; right answers by chains."""
    shown = picture(12.5, 3.6)
    losses, taught, alone, right = shown.subplots(1, 4)
    for index, name in enumerate(CONDITIONS):
        if name in SHOWN:
            lines(losses, curve(table, name), colour(index), name)
    losses.axhline(GUESS, color=GREY, lw=0.8, ls="--", zorder=0)
    losses.set(xlabel="optimizer steps", ylabel="nats (dashes: ln 5)", ylim=(0, 3.6), title="Loss of two hops")
    losses.legend(fontsize=6)
    for ax, condition in ((taught, "prior"), (alone, "end alone")):
        mass(ax, table[(table.kind == "mass") & (table.condition == condition)], condition)
    chains(right, table[(table.kind == "right") & (table.condition == "distractors")])
    return shown


def lines(ax: Axes, rows: DataFrame, tint: str, label: str) -> None:
    """Draw a line for each run, with one entry in the legend."""
    run_lines(ax, rows, color=tint, label=label, lw=0.9, alpha=0.8)


def mass(ax: Axes, rows: DataFrame, condition: str) -> None:
    """Draw the mean probability of the right end, the other ends and the middles."""
    for name, part in rows.groupby("name"):
        lines(ax, part, colour(HOW[str(name)]), str(name))
    ax.set(xlabel="optimizer steps", ylabel="probability", ylim=(0, 1), title=f"Two hops: {condition}")
    ax.legend(fontsize=7)


def chains(ax: Axes, rows: DataFrame) -> None:
    """Draw the share of right answers by number of chains, and that of a guess among ends."""
    ax.plot(rows.chains, rows.value, "o", ms=4, mfc="none", color=colour(0), label="each seed")
    numbers = sorted(rows.chains.dropna().unique())
    ax.plot(numbers, [1 / n for n in numbers], color=GREY, ls="--", lw=0.9, label="guess among ends")
    ax.set(xlabel="chains", ylabel="right answers", ylim=(0, 1.05), title="Among distractors")
    ax.set_xticks(numbers)
    ax.legend(fontsize=7, loc="lower left")
