"""The figure of the census: class frequencies, what determines the class, and the commonest classes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from hopscope.drawing.flow_diagram import flow_diagram
from hopscope.drawing.style import colour, picture, styled
from hopscope.theory.classes import read
from hopscope_studies.census.cells import ORDERS
from hopscope_studies.census.claims import EXPLAINED, FACTORS, classed, counted, explained_by

DRAWN = 4  # classes of each D
SHOWN = 12  # bars of each D
LONG = 4  # hops from which roles need more room and smaller letters


@styled
def figure(table: DataFrame) -> Figure:
    """Above: a panel of class frequencies per D, and what explains them; below: the commonest classes of each D."""
    circuits = counted(classed(table))
    lengths = sorted(table.D.unique())
    shown = picture((3.7 if lengths[-1] < LONG else 4.6) * DRAWN, 2.6 + 2.9 * len(lengths))
    grid = shown.add_gridspec(1 + len(lengths), 1, height_ratios=[1, *[1.15] * len(lengths)])
    above = grid[0].subgridspec(1, len(lengths) + 1)
    for place, hops in enumerate(lengths):
        bars(shown.add_subplot(above[place]), circuits[hops == circuits.D], hops, legend=place == 0)
    shares(shown.add_subplot(above[len(lengths)]), circuits[circuits.D == EXPLAINED])
    for place, hops in enumerate(lengths):
        row = grid[1 + place].subgridspec(1, DRAWN)
        commonest = circuits[hops == circuits.D].wiring.value_counts().head(DRAWN)
        for rank, (wiring, n) in enumerate(commonest.items()):
            drawn(shown.add_subplot(row[rank]), str(wiring), int(n), circuits[hops == circuits.D], rank)
    return shown


def bars(ax: Axes, circuits: DataFrame, hops: int, *, legend: bool) -> None:
    """Draw a bar per class, the commonest first, divided by the order of facts."""
    counts = circuits.wiring.value_counts()
    for rank, wiring in enumerate(counts.index[:SHOWN]):
        left = 0
        for index, order in enumerate(ORDERS):
            n = int(((circuits.wiring == wiring) & (circuits.order == order)).sum())
            ax.barh(rank + 1, n, left=left, color=colour(index))
            left += n
    ax.set(xlabel="circuits", ylabel="class, by rank", ylim=(min(len(counts), SHOWN) + 0.6, 0.4))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title(f"D = {hops}: {len(circuits)} circuits, {len(counts)} classes")
    if legend:
        patches = [Patch(color=colour(i), label=order.replace("_", " ")) for i, order in enumerate(ORDERS)]
        ax.legend(handles=patches, loc="lower right")


def shares(ax: Axes, circuits: DataFrame) -> None:
    """Draw how much each factor explains; a bar is hollow if shuffled labels do as well in one of twenty draws."""
    for place, factor in enumerate(FACTORS):
        if found := explained_by(factor, circuits):
            sure = found.chance < 0.05
            ax.barh(place, found.share, color=colour(3) if sure else "none", edgecolor=colour(3))
            words, end = f"p = {found.chance:.3f}", (max(found.share, 0), place)
            ax.annotate(words, end, (3, 0), textcoords="offset points", va="center", fontsize=7)
    ax.set_yticks(range(len(FACTORS)), FACTORS.values())
    ax.set(xlabel="share explained, above chance", ylim=(len(FACTORS) - 0.4, -0.6))
    ax.update_datalim([(0.05, 0)])  # so that rounding errors do not show as bars
    ax.margins(x=0.25)
    ax.set_title(f"What decides, D = {EXPLAINED}")


def drawn(ax: Axes, wiring: str, n: int, circuits: DataFrame, rank: int) -> None:
    """Draw one class, with the name of its algorithm."""
    first = circuits[circuits.wiring == wiring].iloc[0]
    flow_diagram(read(wiring), int(first.D), causal=False, ax=ax)
    for words in ax.texts if first.D >= LONG else ():
        words.set_fontsize(min(6.5, words.get_fontsize()))
    ax.set_title(f"{rank + 1}: {n} of {len(circuits)}, {first['name']}", fontsize=8)
