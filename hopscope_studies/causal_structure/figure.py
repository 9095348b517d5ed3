"""The figure of `causal_structure`: attention on parents over training, layer 0's maps, losses beside floors."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled

KINDS = {"sgd": "SGD", "adamw": "AdamW", "two parents": "two parents, AdamW"}


@styled
def figure(table: DataFrame) -> Figure:
    """Attention on parents; layer 0's mean attention by SGD and by AdamW, parents ringed; losses and floors by tree."""
    shown = picture(14.5, 3.9)
    over_steps, *maps, losses = shown.subplots(1, 4, width_ratios=[1.25, 1, 1, 1.25])
    for index, (kind, words) in enumerate(KINDS.items()):
        draw_course(over_steps, table, kind, words, index)
    over_steps.set(title="Attention on parents, layer 0", xlabel="step", ylabel="mean attention", ylim=(0, 1))
    over_steps.legend(fontsize=7)
    for ax, kind in zip(maps, ("sgd", "adamw"), strict=True):
        draw_map(ax, table, kind)
    draw_losses(losses, table)
    return shown


def draw_course(ax: Axes, table: DataFrame, kind: str, words: str, index: int) -> None:
    """Draw a thin line for each seed, and their mean."""
    rows = table[(table.kind == kind) & (table.quantity == "course attention")]
    run_lines(ax, rows, color=colour(index), label=words, middle="mean", thick=1.8)


def draw_map(ax: Axes, table: DataFrame, kind: str) -> None:
    """Draw the mean attention for tree 0, with rings around parents."""
    rows = table[(table.kind == kind) & table["query"].notna()]
    for quantity in ("pattern", "parent"):
        square = rows[rows.quantity == quantity].pivot_table(index="query", columns="key", values="value")
        if quantity == "pattern":
            ax.imshow(square.to_numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
            continue
        queries, keys = (square.to_numpy() > 0).nonzero()
        ax.plot(keys, queries, "o", mfc="none", mec=colour(1), ms=7, mew=1.4)
    ax.set(title=f"{KINDS[kind]}: who attends to whom", xlabel="attended position", ylabel="attending position")


def draw_losses(ax: Axes, table: DataFrame) -> None:
    """Draw for each tree the models' losses, and those of counting and of the Bayes predictor."""
    for index, kind in enumerate(("sgd", "adamw")):
        rows = table[(table.kind == kind) & (table.quantity == "loss")]
        ax.plot(rows.seed, rows.value, "os"[index], color=colour(index), label=KINDS[kind])
    for name, words, style in (("counted", "counting from parents", "--"), ("bayes", "Bayes", "-")):
        rows = table[(table.kind == "sgd") & (table.quantity == name)].sort_values("seed")
        ax.plot(rows.seed, rows.value, color=GREY, ls=style, marker="_", lw=1, label=words)
    ax.set(title="Expected loss", xlabel="tree", ylabel="nats")
    ax.set_xticks(sorted(set(table.seed)))
    ax.legend(fontsize=7)
