"""The figure of the study: the learner, and a language model's measures beside shuffled examples and chance."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import points
from hopscope.drawing.style import GREY, PALETTE, picture, styled

HALF = 0.17  # between bars of one measure


@styled
def figure(table: DataFrame) -> Figure:
    """The exact learner; a language model's rules; its choice among four sets of rules."""
    shown = picture(12.0, 3.7)
    left, middle, right = shown.subplots(1, 3, width_ratios=[1.0, 1.25, 1.0])
    draw_learner(left, table[table.part == "learner"])
    language = table[table.part == "language"]
    draw_measures(middle, language)
    draw_choice(right, language)
    return shown


def draw_learner(ax: Axes, rows: DataFrame) -> None:
    """Recall of the learner by size, on all examples and on half."""
    some = rows[rows.measure == "recall"]
    sizes = list(dict.fromkeys(some["size"]))
    for labels, ink, shift, name in (("true", PALETTE[0], -HALF, "all examples"), ("half", GREY, HALF, "half of them")):
        part = some[some.labels == labels]
        points(ax, [sizes.index(size) + shift for size in part["size"]], part, ink, name, ms=5)
    ax.set_xticks(range(len(sizes)), sizes)
    ax.set(ylim=(0, 1.05), xlabel="k, letters, rules", ylabel="recall", title="An exact learner")
    ax.legend(loc="lower left")


def draw_measures(ax: Axes, rows: DataFrame) -> None:
    """The lenient reading's measures, by size and layout, beside shuffled examples; dashes are chance."""
    some = rows[(rows.protocol == "greedy_lenient") & rows.measure.isin(["valid", "recall"])]
    kinds = list(dict.fromkeys(zip(some["size"], some.layout, some.measure, strict=True)))
    place = {kind: i for i, kind in enumerate(sorted(kinds, key=lambda kind: (kind[2] != "valid", kind)))}
    for labels, ink, shift in (("true", PALETTE[0], -HALF), ("shuffled", PALETTE[1], HALF)):
        part = some[some.labels == labels]
        keys = zip(part["size"], part.layout, part.measure, strict=True)
        points(ax, [place[key] + shift for key in keys], part, ink, f"examples {labels}", ms=5)
    chance = some[(some.labels == "true") & some.chance.notna()]
    middles = [place[key] for key in zip(chance["size"], chance.layout, chance.measure, strict=True)]
    ax.hlines(chance.chance, [x - 0.4 for x in middles], [x + 0.4 for x in middles], color=GREY, ls="--", lw=1)
    names = {"valid": "has rules", "recall": "recall"}
    words = [f"{names[measure]}\n{layout.replace('_', ' ')}\n{size}" for size, layout, measure in place]
    ax.set_xticks(list(place.values()), words, fontsize=7)
    ax.set(ylim=(-0.02, 1.05), title=f"{' and '.join(sorted(set(rows.model)))}: rules in the answer")
    ax.legend(loc="upper right")


def draw_choice(ax: Axes, rows: DataFrame) -> None:
    """Which of four rules is likeliest, by layout."""
    some = rows[rows.measure.isin(["choice", "prior_corrected_choice"]) & (rows.labels != "true beyond shuffled")]
    kinds = list(dict.fromkeys(zip(some.layout, some.measure, strict=True)))
    for labels, ink, shift in (("true", PALETTE[0], -HALF), ("shuffled", PALETTE[1], HALF)):
        part = some[some.labels == labels]
        keys = zip(part.layout, part.measure, strict=True)
        points(ax, [kinds.index(key) + shift for key in keys], part, ink, f"examples {labels}", ms=5)
    ax.axhline(0.25, color=GREY, ls="--", lw=1)
    told = {"choice": "likeliest", "prior_corrected_choice": "prior-corrected"}
    ax.set_xticks(range(len(kinds)), [f"{layout.replace('_', ' ')}\n{told[m]}" for layout, m in kinds], fontsize=7.5)
    ax.set(ylim=(0, 1.05), title="One set of rules of four, (2, 3, 2)")
    ax.legend(loc="upper right")
