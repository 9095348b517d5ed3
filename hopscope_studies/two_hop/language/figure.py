"""The figure of `two_hop_llm`: right answers by number of chains, and by template."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, name_rows, picture, styled
from hopscope_studies.two_hop.language.claims import MOST, at, interval, share
from hopscope_studies.two_hop.language.templates import CHAINS, TEMPLATES


@styled
def figure(table: DataFrame) -> Figure:
    """Left: one hop, two hops, and two hops of an untrained model, by chains. Right: by template, with most chains."""
    shown = picture(9.5, 3.4)
    left, right = shown.subplots(1, 2)
    language, untrained = table[table.part == "language"], table[table.part == "untrained"]
    for number, (part, hops, name) in enumerate(
        [(language, 1, "one hop"), (language, 2, "two hops"), (untrained, 2, "two hops, untrained")]
    ):
        by_chains(left, part, hops, name, number)
    left.plot(CHAINS, [1 / n for n in CHAINS], color=GREY, ls="--", lw=0.9, label="guess among ends")
    left.set(xlabel="chains", ylabel="right answers among ends", ylim=(0, 1.05), title="By number of chains")
    left.set_xticks(CHAINS)
    left.legend(fontsize=7)
    for number, hops in enumerate((1, 2)):
        by_template(right, at(language, hops, MOST), number, "one hop" if hops == 1 else "two hops")
    right.axvline(1 / MOST, color=GREY, ls="--", lw=0.9, label="guess among ends")
    right.set(xlabel="right answers among ends", xlim=(0, 1.05), title=f"By template, {MOST} chains")
    name_rows(right, list(TEMPLATES))
    right.legend(fontsize=7)
    return shown


def by_chains(ax: Axes, part: DataFrame, hops: int, name: str, number: int) -> None:
    """Draw shares with their intervals by number of chains; several series are shifted side by side."""
    for n in CHAINS:
        rows = at(part, hops, n)
        if len(rows):
            low, high = interval(rows, "right")
            place = n + 0.08 * (number - 1)
            ax.plot([place, place], [low, high], color=colour(number), lw=1)
            ax.plot(place, share(rows, "right"), "o", ms=4, color=colour(number), label=name if n == CHAINS[0] else "_")


def by_template(ax: Axes, part: DataFrame, number: int, name: str) -> None:
    """Draw shares with their intervals by template."""
    for place, template in enumerate(TEMPLATES):
        rows = part[part.template == template]
        if len(rows):
            low, high = interval(rows, "right")
            height = place + 0.2 * (number - 0.5)
            ax.plot([low, high], [height, height], color=colour(number), lw=1)
            ax.plot(share(rows, "right"), height, "o", ms=4, color=colour(number), label="_" if place else name)
