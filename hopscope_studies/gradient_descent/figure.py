"""The figure of `gradient_descent`: training, answers and weights elsewhere, repetition, and two layers."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.gradient_descent.claims import of

SYSTEMS = ("one layer", "two layers, looped", "two layers")


@styled
def figure(table: DataFrame) -> Figure:
    """Losses over training; one layer beside descent on other sizes and repeated; two layers beside two steps."""
    shown = picture(11.0, 6.6)
    training, inputs, weights, repeated, two, alike = shown.subplots(2, 3).flatten()
    draw_training(training, table)
    beside(inputs, of(table, "loss by input range"), "width of the inputs' interval (trained at 1)", "Other inputs")
    beside(weights, of(table, "loss by weight scale"), "size of the weights (trained at 1)", "Other weights")
    applied, whole = of(table, "loss repeated on y alone"), of(table, "loss repeated")
    beside(repeated, applied, "times applied, damped by 0.75", "One layer, repeated on y", log=False)
    repeated.plot(whole["at"], whole.model, "x", ms=4, color=colour(1), alpha=0.7, label="on x and y")
    repeated.set_ylim(0, 0.5)
    repeated.legend(fontsize=7)
    draw_two(two, table)
    draw_alike(alike, table)
    return shown


def draw_training(ax: Axes, table: DataFrame) -> None:
    """Validation loss of every run; one step of descent, in closed form."""
    for index, system in enumerate(SYSTEMS):
        rows = of(table, "validation loss", system)
        run_lines(ax, rows, "model", "at", color=colour(index), label=system, lw=0.9, alpha=0.8)
    if len(rows := of(table, "validation loss")):
        ax.axhline(rows.descent.iloc[0], color=GREY, ls="--", lw=1, label="one step of descent")
    ax.set(xlabel="optimizer steps", ylabel="half squared error", title="Training", ylim=(0, None))
    ax.legend(fontsize=7)


def beside(ax: Axes, rows: DataFrame, xlabel: str, title: str, log: bool = True) -> None:
    """Every run's losses, dots; descent's, a line."""
    if len(rows):
        line = rows.groupby("at").descent.mean()
        ax.plot(line.index, line, "-", color=GREY, lw=2.2, alpha=0.6, label="gradient descent")
        ax.plot(rows["at"], rows.model, "o", ms=3.5, color=colour(0), alpha=0.7, label="trained layer, every seed")
        ax.legend(fontsize=7)
    ax.set(xlabel=xlabel, ylabel="half squared error", title=title)
    if log:
        ax.set_yscale("log")


def draw_two(ax: Axes, table: DataFrame) -> None:
    """Two layers' losses, and those of two steps at best common or own rates."""
    for place, system in enumerate(SYSTEMS[1:]):
        for what, style in (("loss against gradient descent", "--"), ("loss against GD++", "-")):
            rows = of(table, what, system)
            if len(rows):
                label = f"two steps of {what.removeprefix('loss against ')}" if place == 0 else "_"
                ax.hlines(rows.descent.mean(), place - 0.3, place + 0.3, color=GREY, ls=style, label=label)
                tint = colour(1 + place)
                ax.plot([place + 0.05 * (seed - 2) for seed in rows.seed], rows.model, "o", ms=4, color=tint)
    ax.set_xticks([0, 1], ["common weights\nand rates", "own weights\nand rates"])
    ax.set(ylabel="half squared error", title="Two layers, every seed", xlim=(-0.6, 1.6), ylim=(0, 0.2))
    ax.legend(fontsize=7)


def draw_alike(ax: Axes, table: DataFrame) -> None:
    """One layer's distance from gradient descent, in percent of the size of what gradient descent gives."""
    names = {
        "distance of answers": "answers",
        "distance of sensitivities": "sensitivities",
        "loss": "loss",
        "loss of interpolated weights": "loss, mean\nof weights",
    }
    for place, what in enumerate(names):
        rows = of(table, what)
        gap = 100 * (rows.model / rows.descent - (1 if what.startswith("loss") else 0)).abs()
        ax.plot([place + 0.06 * (seed - 2) for seed in rows.seed], gap, "o", ms=4, color=colour(0))
    ax.set_xticks(range(len(names)), list(names.values()), fontsize=7)
    ax.set(ylabel="% of descent's", title="One layer's distance from descent", ylim=(0, None))
