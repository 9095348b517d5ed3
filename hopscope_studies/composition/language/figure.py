"""The figure of `composition_llm`: cost of ablation, overlaps with controls, best partners, diagonal scores."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, PALETTE, picture, styled
from hopscope_studies.composition.language.claims import RANK, drawn


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy without heads, overlaps by rank, each induction head's best partner, and diagonal scores."""
    shown = picture(11.0, 7.4)
    cut, overlap, partners, diagonal = shown.subplots(2, 2).flatten()
    language = table[table.part == "language"]
    draw_cut(cut, language)
    draw_overlaps(overlap, language)
    draw_partners(partners, language[language.seed == language.seed.min()], language)
    draw_diagonals(diagonal, language)
    return shown


def draw_cut(ax: Axes, table: DataFrame) -> None:
    """Draw the accuracy on the second copy by number of ablated heads."""
    rows = table[table.kind == "accuracy"].copy()
    rows["size"] = rows.name.str.extract(r" (\d+)(?: \d+)?$", expand=False).astype(float)
    previous = rows.name == "previous"
    rows.loc[previous, "size"] = 8.0
    for name, ink, shift, label in (
        ("random", GREY, 0.93, "random"),
        ("same layers", PALETTE[2], 1.07, "others of the same layers"),
        ("previous", PALETTE[1], 1.0, "highest previous-token heads"),
        ("induction", PALETTE[0], 1.0, "highest induction heads"),
    ):
        some = rows[rows.name.str.startswith(name)]
        ax.plot(some["size"] * shift, some.value, ls="", marker="o", ms=5 if shift == 1 else 3, color=ink, label=label)
        if shift == 1:
            ax.vlines(some["size"] * shift, some.low, some.high, color=ink, lw=1)
    for value in rows[rows.name == "whole"].value:
        ax.axhline(value, color=GREY, lw=0.8, ls="--")
    ax.set_xscale("log")
    ax.set_xticks([1, 4, 8, 16], ["1", "4", "8", "16"])
    ax.minorticks_off()
    ax.set(xlabel="heads cut", ylabel="accuracy", ylim=(-0.02, 1), title="Second copy (dashed: whole model)")
    ax.legend(fontsize=7)


def draw_overlaps(ax: Axes, table: DataFrame) -> None:
    """Draw overlaps by rank, for chosen heads, random heads and rotations."""
    for name, ink, label in (
        ("turned", GREY, "turned at random"),
        ("random", PALETTE[2], "random heads of the same layers"),
        ("random earlier", PALETTE[1], "induction heads, random earlier ones"),
    ):
        rows = table[(table.kind == "overlap") & table.name.str.fullmatch(rf"{name} \d+").astype(bool)]
        ax.plot(rows.step, rows.value, "o", ms=2.5, color=ink, alpha=0.6, label=label)
    rows = table[(table.kind == "overlap") & (table.name == "induction on previous")]
    ax.errorbar(rows.step, rows.value, (rows.value - rows.low, rows.high - rows.value), fmt="o", ms=5, lw=1,
                color=PALETTE[0], label="induction heads, previous-token heads")  # fmt: skip
    ax.set_xticks(sorted(rows.step.unique()))
    ax.set(xlabel="directions", ylabel="overlap", ylim=(0, 1.5 * rows.high.max()), title="Mean over pairs (95 %)")
    ax.legend(fontsize=7, loc="upper left")


def draw_partners(ax: Axes, first: DataFrame, table: DataFrame) -> None:
    """Draw each induction head's best overlap with an earlier head, and name that head."""
    rows = first[first.kind == "best"]
    earlier = " ".join(first[(first.kind == "chosen") & (first.name == "previous")].other).split()
    inks = [PALETTE[1] if head in earlier else PALETTE[4] for head in rows.other]
    ax.bar(range(len(rows)), rows.value, color=inks)
    for at, (head, value) in enumerate(zip(rows.other, rows.value, strict=True)):
        ax.annotate(str(head), (at, value), fontsize=7, ha="center", xytext=(0, 2), textcoords="offset points")
    floor = drawn(table, "best overlap", "random earlier", RANK)
    ax.axhspan(floor.min(), floor.max(), color=GREY, alpha=0.3, lw=0)
    ax.set_xticks(range(len(rows)), rows.name, fontsize=7)
    ax.set(ylabel="overlap", title="Best earlier head (orange: a previous-token head;\ngrey: best of random eights)")


def draw_diagonals(ax: Axes, table: DataFrame) -> None:
    """Draw diagonal scores with both controls."""
    for place, (name, ink) in enumerate((("shuffled", GREY), ("random", PALETTE[2]))):
        values = drawn(table, "diagonal", name)
        ax.plot([place] * len(values), values, "o", ms=3, color=ink)
    rows = table[(table.kind == "diagonal") & (table.name == "induction on previous")]
    ax.errorbar([2 + 0.1 * seed for seed in rows.seed], rows.value, (rows.value - rows.low, rows.high - rows.value),
                fmt="o", ms=5, lw=1, color=PALETTE[0])  # fmt: skip
    ax.set_xticks(range(3), ["W_OV shuffled", "random heads", "chosen heads"])
    ax.axhline(0, color=GREY, lw=0.8, ls="--")
    ax.set(ylabel="diagonal score", title="W_QK W_OV, mean over pairs (95 %)")
