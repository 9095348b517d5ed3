"""The figure of `hidden_rules`: right answers by kind of prompts and heads cut."""

from __future__ import annotations

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.composition.hidden.claims import of, pooled
from hopscope_studies.composition.hidden.prompts import FORMS, KINDS

CUTS = {"nothing": "none", "random": "random", "same layers": "random,\nsame layers", "induction": "induction"}


@styled
def figure(table: DataFrame) -> Figure:
    """A panel for each kind: right answers by heads cut, in both forms, and with shuffled examples."""
    shown = picture(10.0, 6.4)
    found = pooled(table[table.part == "language"])
    for ax, kind in zip(shown.subplots(2, 2, sharey=True).flatten(), KINDS, strict=True):
        for index, form in enumerate(FORMS):
            for place, cut in enumerate(CUTS if form != "shuffled" else ["nothing"]):
                share, low, high = (of(found, form, cut, column)[kind] for column in ("share", "low", "high"))
                ax.errorbar(place + 0.15 * (index - 1), share, ([share - low], [high - share]), fmt="o", ms=5, lw=1,
                            color=colour(index), label=None if place else form)  # fmt: skip
        ax.axhline(of(found, "replaced", column="chance")[kind], color=GREY, lw=0.8, ls="--")
        ax.set_xticks(range(len(CUTS)), list(CUTS.values()), fontsize=8)
        ax.set(xlabel="heads cut", ylabel="right answers", ylim=(0, 1.02), title=f"{kind} (dashed: guessing)")
    ax.legend(fontsize=7, loc="center right")
    return shown
