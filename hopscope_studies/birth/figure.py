"""The figure of `birth`: memories over training, accuracy, and memories after each of three gradient steps."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.birth.claims import HALF
from hopscope_studies.birth.models.basic_transformer import TRAINED


@styled
def figure(table: DataFrame) -> Figure:
    """Left: recalls of the basic model. Middle: accuracy in context. Right: recalls after each of three steps."""
    shown = picture(11.5, 3.8)
    left, middle, right = shown.subplots(1, 3)
    for index, name in enumerate(("W_O2", "W_K2", "W_K1 first")):
        draw(left, table, "published", name, index, name.replace(" first", ", first 64 positions"))
        draw(left, table, "basic", name, index, None, ls="--")
        draw(left, table, "basic drawn", name, index, None, ls=":")
        draw(right, table, "three steps", name, index, name, marker="o")
        draw(right, table, "three whole steps", name, index, None, ls=":", marker="o")
    draw(left, table, "published", "W_K2 of all", 3, "W_K2 of all characters")
    for index, model in enumerate(("basic", "basic staged", "1 layer", "2 layers")):
        draw(middle, table, model, "accuracy", index, model)
    left.set(title="Recall (dashed: small; dotted: drawn)", ylabel="recall")
    middle.set(title="Accuracy on predictable outputs", ylabel="accuracy")
    right.set(title="One step each (dotted: whole gradients)", xlabel="gradient steps", ylabel="recall")
    right.set_xticks(range(4), ["0", *(f"{number} {name}" for number, name in enumerate(TRAINED, 1))])
    for ax in (left, middle, right):
        ax.set_ylim(-0.02, 1.05)
        ax.axhline(HALF, color=GREY, lw=0.6, ls="--", zorder=0)
        ax.legend(fontsize=7)
    left.set_xlabel("steps of SGD")
    middle.set_xlabel("optimizer steps")
    return shown


def draw(ax: Axes, table: DataFrame, model: str, quantity: str, index: int, label: str | None, **style: Any) -> None:
    """Draw a thin line for each seed, and their mean."""
    rows = table[(table.model == model) & (table.quantity == quantity)]
    for _, run in rows.groupby("run"):
        ax.plot(run.step, run.value, color=colour(index), lw=0.6, alpha=0.4, **style)
    mean, count = rows.groupby("step").value.mean(), rows.groupby("step").run.nunique()
    mean = mean[count == rows.run.nunique()]  # only while all runs go on
    ax.plot(mean.index, mean, color=colour(index), lw=1.8, label=label or "_", **style)
