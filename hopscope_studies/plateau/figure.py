"""The figure of `plateau`: loss and attention side by side, the two factors, and the law."""

from __future__ import annotations

import math

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.plateau.course import hop_times
from hopscope_studies.plateau.law import PLATEAU, Theory, central, theory_of
from hopscope_studies.plateau.theory.fit import STRIDE
from hopscope_studies.plateau.theory.two_factor import share

SHOWN = (0, 1, 1.5, 2, 4)  # starts that are shown side by side
ORDERS = {"deepest_first": "deepest first", "shuffled": "shuffled", "nearest_first": "nearest first"}


@styled
def figure(table: DataFrame) -> Figure:
    """Top: losses and both attentions over training, per start. Bottom: phase portrait, law, and share that learns."""
    shown = picture(11.5, 9.0)
    above, below = shown.subfigures(2, 1, height_ratios=[1.25, 1]).tolist()  # type: ignore[union-attr]
    small = central(table)
    starts = [start for start in SHOWN if (small.start == start).any()]
    if starts:
        side_by_side(above, small, starts)
    portrait, law, learns = below.subplots(1, 3)
    draw_portrait(portrait, small)
    draw_law(law, table, theory_of(small) if len(small) else None)
    draw_learns(learns, table)
    return shown


def side_by_side(figure: SubFigure, table: DataFrame, starts: list[float]) -> None:
    """Draw a column per start: losses above, attention below; a line per seed."""
    axes = figure.subplots(2, len(starts), sharex=True, sharey="row", squeeze=False)
    for column, start in enumerate(starts):
        part = table[table.start == start]
        losses, attention = axes[:, column]
        for index, (hop, curves) in enumerate(part.groupby("hop")):
            lines(losses, curves, "hop_loss", colour(index), str(hop))
        first = part[part.hop == "x1"]
        lines(attention, first, "joined", colour(3), "join: value → key, layer 0")
        lines(attention, first, "look_up", colour(5), "look-up: query → value[1]")
        losses.axhline(PLATEAU, color=GREY, lw=0.8, ls="--", zorder=0)
        losses.set_title(f"b = {start:g}")
        losses.set_ylim(0, 1.1)
        attention.set_ylim(0, 1)
        attention.set_xlabel("optimizer steps")
    axes[0, 0].set_ylabel("partial loss")
    axes[1, 0].set_ylabel("attention")
    axes[0, 0].legend(loc="lower left")
    axes[1, 0].legend(loc="upper left")


def lines(ax: Axes, table: DataFrame, column: str, tint: str, label: str) -> None:
    """Draw a line per run, with one entry in the legend."""
    run_lines(ax, table, column, color=tint, label=label, lw=1, alpha=0.7)


def draw_portrait(ax: Axes, table: DataFrame) -> None:
    """Draw each run's course in the plane of the two factors."""
    first = table[table.hop == "x1"]
    starts = sorted(first.start.unique())
    for index, start in enumerate(starts):
        part = first[first.start == start]
        run_lines(ax, part, "look_up", "joined", color=colour(index), label=f"b = {start:g}", lw=0.9, alpha=0.8)
        begun = part.groupby("run").first()
        ax.plot(begun.joined, begun.look_up, "o", color=colour(index), ms=3)
    ax.set_yscale("log")
    ax.set_xlabel("join attention")
    ax.set_ylabel("look-up attention")
    ax.set_title("The two factors (dots: start)")
    if starts:
        ax.legend(loc="lower right")


def draw_law(ax: Axes, table: DataFrame, theory: Theory | None) -> None:
    """Draw when x1 was learnt, by the initial join; runs that did not learn it are hollow, at the top."""
    small = table[(table.D == 3) & (table.order == "deepest_first") & (table.heads == 1) & (table.hop == "x1")]
    ceiling = 1.15 * float(small.steps.max()) if len(small) else 1.0
    for index, (mlp, part) in enumerate(small.groupby("mlp")):
        starts = part.sort_values("step").groupby("run").joined.first()
        learnt = hop_times(part, "x1")[starts.index]
        never = numpy.isinf(learnt)
        label = "with MLPs" if mlp else "without"
        ax.plot(starts[~never], learnt[~never], "o", color=colour(index), ms=4, label=label)
        ax.plot(starts[never], never[never] * ceiling, "^", mfc="none", color=colour(index), ms=5)
    if theory is not None:
        draw_theory(ax, theory)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(ticks := (0.1, 0.2, 0.4, 0.8), [f"{tick:g}" for tick in ticks])
    ax.set_yticks(ticks := (50, 100, 200, 400), [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("join attention at the start")
    ax.set_ylabel("step at which x1 is learnt")
    ax.set_title("The law (hollow: not in the time watched)")
    if len(small):
        ax.legend(loc="lower left")


def draw_theory(ax: Axes, theory: Theory) -> None:
    """Draw the two-factor model's time, and that of growth alone."""
    starts = numpy.linspace(0, 4.2, 85)
    values = tuple(2 * fact for fact in range(1, 13))  # all value positions at N = 4, D = 3
    for model, name, style in ((theory.model, "two factors", "-"), (theory.free, "growth alone", ":")):
        times = model.learning_time(starts, theory.steps, STRIDE)
        told = numpy.isfinite(times)
        ax.plot(share(starts[told], values), times[told], style, color="black", lw=1.2, label=name)


def draw_learns(ax: Axes, table: DataFrame) -> None:
    """Draw the share of runs that learn x1, by start; with several D, draw a map."""
    if table.D.nunique() * table.order.nunique() > 1:
        draw_map(ax, table)
        return
    for index, (mlp, part) in enumerate(table.groupby("mlp")):
        learns = hop_times(part, "x1").map(math.isfinite)
        learns = learns.groupby(part.drop_duplicates("run").set_index("run").start).mean()
        ax.plot(learns.index, learns, "o-", color=colour(index), ms=4, label="with MLPs" if mlp else "without")
    ax.set_ylim(-0.05, 1.05)
    ax.set_xlabel("bias b for the token before, at the start")
    ax.set_ylabel("share of runs that learn x1")
    ax.set_title("Who learns")
    ax.legend(loc="upper left")


def draw_map(ax: Axes, table: DataFrame) -> None:
    """Draw a map of the share of hops learnt: rows are orders and D, columns are starts."""
    ends = table.drop_duplicates(["run", "hop"])
    ends = ends.assign(learns=ends.learnt.notna(), row=ends.order.map(ORDERS) + ", D = " + ends.D.astype(str))
    shares = ends.pivot_table(index="row", columns="start", values="learns", aggfunc="mean", sort=False)
    shares = shares[sorted(shares.columns)]
    ax.imshow(shares, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    for (row, column), value in numpy.ndenumerate(shares.to_numpy()):
        if not math.isnan(value):
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color="white" if value < 0.6 else "black")
    ax.set_xticks(range(shares.shape[1]), [f"{start:g}" for start in shares.columns])
    ax.set_yticks(range(shares.shape[0]), list(shares.index))
    ax.set_xlabel("bias b for the token before, at the start")
    ax.set_title("Share of hops learnt")
