"""The figure of `sequential_functions`: errors by place, the cost of random labels, and the source's setting."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.sequential_functions.claims import CLEAN, RANDOM, TRIVIAL

LINES = {"zero": ":", "least squares": "--", "one step of descent": "-.", "posterior mean": "-"}


@styled
def figure(table: DataFrame) -> Figure:
    """Errors by place with clean labels and with a quarter random; error at the end by share; the source's setting."""
    shown = picture(11.0, 7.0)
    axes = shown.subplots(2, 2).flatten()
    shares = sorted(table[table.kind == "model"].share.unique())
    draw_places(axes[0], table, 0.0, "All labels genuine")
    draw_places(axes[1], table, shares[min(1, len(shares) - 1)], "A quarter of the labels random")
    draw_shares(axes[2], table)
    draw_source(axes[3], table)
    for ax in axes:
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=7)
    return shown


def by_place(table: DataFrame, kind: str, who: str, share: float) -> Series:
    """Mean error over seeds, by place."""
    rows = table[(table.kind == kind) & (table.who == who) & (table.share == share)]
    return rows.groupby("place").error.mean()


def draw_places(ax: Axes, table: DataFrame, share: float, title: str) -> None:
    """Draw the error by place: references in grey, trivial predictions faint, models' seeds in colour."""
    for name in TRIVIAL:
        line = by_place(table, "reference", name, share)
        ax.plot(
            line.index, line, lw=0.8, color=GREY, alpha=0.35, label="trivial predictions" if name == TRIVIAL[0] else "_"
        )
    for name, style in LINES.items():
        line = by_place(table, "reference", name, share)
        ax.plot(line.index, line, style, lw=1.3, color=GREY, label=name)
    for index, who in enumerate((CLEAN, RANDOM)):
        rows = table[(table.kind == "model") & (table.who == who) & (table.share == share)]
        run_lines(ax, rows, "error", "place", color=colour(index), label=f"trained on {who}", lw=1, alpha=0.8)
    ax.set(xlabel="place", ylabel="mean squared error", title=title, ylim=(0, 3))


def draw_shares(ax: Axes, table: DataFrame) -> None:
    """Draw the error at the last place by the share of random labels."""
    kinds = table[table.kind.isin(["model", "reference"])]
    rows = kinds[kinds.place == kinds.place.max()]
    for name, style in [*LINES.items(), ("ridge", (0, (1, 1, 4, 1)))]:
        means = rows[rows.who == name].groupby("share").error.mean()
        ax.plot(100 * means.index, means, ls=style, lw=1.3, color=GREY, label=name)
    for index, who in enumerate((CLEAN, RANDOM)):
        part = rows[rows.who == who]
        means = part.groupby("share").error.mean()
        ax.plot(100 * means.index, means, lw=1, color=colour(index), label=f"trained on {who}")
        ax.plot(100 * part.share, part.error, "o", ms=3.5, color=colour(index), alpha=0.7)
    ax.set(
        xlabel="% of labels random", ylabel="error at the last place", title="What random labels cost", ylim=(0, 1.6)
    )


def draw_source(ax: Axes, table: DataFrame) -> None:
    """Draw the source's own sequences: a trivial prediction and the released model."""
    rows = table[table.kind == "source"]
    for index, (who, part) in enumerate(rows.groupby("who")):
        means = part.groupby("place").error.mean()
        ax.plot(means.index, means, "-o", ms=3, lw=1, color=colour(index + 2), label=str(who))
    ax.set(xlabel="place", ylabel="squared error", title="The source's own linear sequences", ylim=(0, None))
