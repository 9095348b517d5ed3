"""The figure of the study: the learner, and a language model's measures beside shuffled examples and chance."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import points
from hopscope.drawing.style import GREY, PALETTE, picture, styled

HALF = 0.17  # between bars of one measure
RULES = {"valid": "has rules", "recall": "recall"}
CHOICE = {"choice": "likeliest", "prior_corrected_choice": "prior-corrected"}


@styled
def figure(table: DataFrame) -> Figure:
    """The exact learner; a language model's rules; if it was asked to choose, its choice among four sets of rules."""
    asked = table[(table.part == "language") & (table.protocol != "greedy_strict")]
    panels = [(RULES, f"{' and '.join(sorted(set(asked.model)))}: rules in the answer")]
    panels += [(CHOICE, "One set of rules of four, (2, 3, 2)")] if asked.measure.isin(CHOICE).any() else []
    shown = picture(12.0, 3.7)
    left, *others = shown.subplots(1, 1 + len(panels))
    draw_learner(left, table[table.part == "learner"])
    for ax, (names, title) in zip(others, panels, strict=True):
        draw_measures(ax, asked[asked.measure.isin(names)], names)
        ax.set_title(title)
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


def draw_measures(ax: Axes, some: DataFrame, names: dict[str, str]) -> None:
    """Measures by size and layout, beside those with shuffled examples; dashes are chance."""
    some = some.assign(kind=some[["size", "layout", "measure"]].apply(tuple, axis=1))
    kinds = sorted(set(some.kind), key=lambda kind: (list(names).index(kind[2]), kind))
    for labels, ink, shift in (("true", PALETTE[0], -HALF), ("shuffled", PALETTE[1], HALF)):
        part = some[some.labels == labels]
        points(ax, [kinds.index(kind) + shift for kind in part.kind], part, ink, f"examples {labels}", ms=5)
    chance = some[(some.labels == "true") & some.chance.notna()]
    middles = [kinds.index(kind) for kind in chance.kind]
    ax.hlines(chance.chance, [x - 0.4 for x in middles], [x + 0.4 for x in middles], color=GREY, ls="--", lw=1)
    words = [f"{names[measure]}\n{layout.replace('_', ' ')}\n{size}" for size, layout, measure in kinds]
    ax.set_xticks(range(len(kinds)), words, fontsize=7)
    ax.set(ylim=(-0.02, 1.05))
    ax.legend(loc="upper right")
