"""The picture of the bench: how many hops each candidate learns in each column, and after how many sequences."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pandas import DataFrame

from hopscope.drawing.style import GREY, PALETTE, colour, picture, styled
from hopscope_studies.architectures.cells import LAYERS, MAIN
from hopscope_studies.architectures.claims import at, columns_of, hops_learnt, label, thousands

SHADES = LinearSegmentedColormap.from_list("hops", ["#FFFFFF", PALETTE[4], PALETTE[0]])
SHOWN = 3  # hops of the problem that the right panel shows


@styled
def figure(table: DataFrame) -> Figure:
    """Left: hops learnt of those within reach, by candidate and column. Right: sequences until each hop of D = 3."""
    each = hops_learnt(table)
    names, places = list(dict.fromkeys(each.candidate)), columns_of(each)
    tall = 1.6 + 0.42 * len(names)
    shown = picture(4.2 + 0.78 * len(places) + 4.0, max(3.4, tall))
    left, right = shown.subplots(1, 2, width_ratios=[1.4 + 0.78 * len(places), 4.0])
    matrix(left, each, names, places)
    waits(right, table, names)
    return shown


def matrix(ax: Axes, each: DataFrame, names: list[str], places: list[tuple[str, int, int]]) -> None:
    """Draw a square per candidate and column: shade and first line, hops learnt; second line, thousand sequences."""
    for row, name in enumerate(names):
        for column, place in enumerate(places):
            square(ax, at(each[each.candidate == name], place), column, row)
    ax.set(xlim=(-0.5, len(places) - 0.5), ylim=(len(names) - 0.5, -0.5))
    ax.set_xticks(range(len(places)), [label(*place) for place in places], fontsize=7)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_title("Hops learnt / within exact reach (mean of seeds), and sequences needed", pad=10)


def square(ax: Axes, runs: DataFrame, column: int, row: int) -> None:
    """Draw one cell of the bench; white with a dash where nothing was trained."""
    if not len(runs):
        ax.text(column, row, "–", ha="center", va="center", color=GREY)
        return
    mean, asked, reach = runs.learnt.mean(), runs.asked.iloc[0], runs.reach.iloc[0]
    share = mean / asked
    ax.add_patch(rectangle(column, row, SHADES(share)))
    ink = "white" if share > 0.75 else "#222222"
    ax.text(column, row - 0.13, f"{mean:.2g} / {'?' if math.isnan(reach) else f'{reach:.0f}'}", **centred(ink, 9))
    low, high = runs.learnt.min(), runs.learnt.max()
    spread = "" if low == high else f"{low}–{high}; "
    ax.text(column, row + 0.24, spread + thousands(runs), **centred(ink, 6))


def rectangle(column: int, row: int, tint: Any) -> Rectangle:
    """A square's background."""
    return Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=tint, edgecolor="#DDDDDD", lw=0.6)


def centred(ink: str, size: int) -> dict[str, Any]:
    """The properties of text in a square."""
    return {"ha": "center", "va": "center", "color": ink, "fontsize": size}


def waits(ax: Axes, table: DataFrame, names: list[str]) -> None:
    """Draw the sequences until each of three hops: a dot per seed, hollow at the right edge where it never was."""
    rows = table[(table.task == MAIN) & (table.D == SHOWN) & (table.layers == LAYERS)]
    edge = 1.12 * float((table.steps * table.batch).max()) / 1000
    for row, name in enumerate(names):
        for k in range(1, SHOWN + 1):
            part = rows[(rows.candidate == name) & (rows.k == k)]
            place, took = row + 0.22 * (k - 2), part.learnt * part.batch / 1000
            never = took.isna()
            ax.plot(took[~never], [place] * int((~never).sum()), "o", ms=5, color=colour(k - 1))
            ax.plot([edge] * int(never.any()), [place] * int(never.any()), "o", ms=4, mfc="none", mec=colour(k - 1))
    for k in range(1, SHOWN + 1):
        ax.plot([], [], "o", ms=5, color=colour(k - 1), label=f"hop {k}")
    ax.set(xlim=(0, 1.25 * edge), ylim=(len(names) - 0.5, -0.5), xlabel="thousand sequences")
    ax.set_yticks(range(len(names)), [])
    ax.grid(axis="y", color="#EEEEEE", lw=6, zorder=-1)
    ax.set_title(f"Until each hop of D = {SHOWN}, L = {LAYERS} (hollow: never)", pad=10)
    ax.legend(loc="center right", fontsize=7)
