"""The figure of `episodic_memory_llm`: lag curves, distances by matching score, shares, and silenced heads."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, PALETTE, colour, name_rows, picture, styled
from hopscope_studies.episodic_memory.fit import NEAR


@styled
def figure(table: DataFrame) -> Figure:
    """Curves of the highest heads, every head's distance, shares near recall, contiguity without heads."""
    shown = picture(11.0, 7.4)
    curves, distances, shares, silenced = shown.subplots(2, 2).flatten()
    language = table[table.part == "language"]
    first = language[(language.seed == language.seed.min()) & (language.model == language.model.iloc[0])]
    draw_curves(curves, first)
    draw_distances(distances, first, table[table.part == "toy"])
    draw_shares(shares, table)
    draw_silenced(silenced, language)
    return shown


def draw_curves(ax: Axes, rows: DataFrame) -> None:
    """Draw attention by lag, with 95 % intervals."""
    for number, (name, part) in enumerate(rows[rows.kind == "lag"].groupby("name", sort=False)):
        ax.plot(part.step, part.value, lw=1.1, color=colour(number), label=str(name))
        ax.fill_between(part.step, part.low, part.high, color=colour(number), alpha=0.2, lw=0)
    ax.set_yscale("log")
    ax.set(xlabel="lag from the token's earlier place", ylabel="attention", title="Highest matching scores")
    ax.legend(fontsize=7)


def draw_distances(ax: Axes, rows: DataFrame, toys: DataFrame) -> None:
    """Draw every head's distance over its matching score; the toy models' copying heads are at the right."""
    kinds = ("matching", "distance", "like recall")
    both = rows[rows.kind.isin(kinds)].pivot(index="name", columns="kind", values="value")
    for like, ink, label in ((0.0, GREY, "other heads"), (1.0, PALETTE[0], "like recall")):
        part = both[both["like recall"] == like]
        ax.plot(part.matching, part.distance.clip(lower=1e-6), "o", ms=3.2, color=ink, alpha=0.7, label=label)
    near = toys[toys.kind == "distance"].value
    ax.plot([1.05] * len(near), near, "x", ms=5, color=PALETTE[1], label="toy models' copying heads")
    ax.axhline(NEAR, color=GREY, lw=0.8, ls="--")
    ax.set_yscale("log")
    ax.set(xlabel="matching score, other sequences", ylabel="CMR distance", title="Every head (dashed: CMR-like below)")
    ax.legend(fontsize=7)


def draw_shares(ax: Axes, table: DataFrame) -> None:
    """Draw the shares of heads that are like recall, with both controls."""
    labels: list[str] = []
    for part, among in (
        ("language", "all heads"), ("language", "heads that do not copy"), ("untrained", "all heads"),
    ):  # fmt: skip
        rows = table[(table.part == part) & (table.kind == f"share like recall: {among}")]
        for name, ink in (("heads", PALETTE[0]), ("shuffled", GREY), ("unrelated", PALETTE[1])):
            some = rows[rows.name == name]
            ax.plot(some.value, [len(labels)] * len(some), "o", ms=4.5, color=ink)
            ax.hlines([len(labels)] * len(some), some.low, some.high, color=ink, lw=1)
            labels.append(f"{part}, {among}: {name}" if name == "heads" else name)
    name_rows(ax, labels, fontsize=7)
    ax.set(xlim=(0, None), xlabel="share like recall (95 %)", title="How many, and how many by chance")


def draw_silenced(ax: Axes, rows: DataFrame) -> None:
    """Draw the answers' CRP at lag +1, with and without heads."""
    found = rows[rows.kind == "following"]
    groups = (
        ("whole", found.name == "whole"),
        ("matching\nsilenced", found.name == "matching"),
        ("like recall\nsilenced", found.name == "recall"),
        ("random", found.name.str.startswith("random")),
        ("same\nlayers", found.name.str.startswith("same layers")),
    )
    for place, (_, which) in enumerate(groups):
        part = found[which]
        ax.plot([place + 0.15 * (seed > 0) for seed in part.seed], part.value, "o", ms=3.5, color=colour(place))
    ax.axhline(1, color=GREY, lw=0.8, ls="--")
    ax.set_xticks(range(len(groups)), [name for name, _ in groups], fontsize=8)
    ax.set(ylim=(0, 16), ylabel="CRP at lag +1", title="Answers on lists (dashed: even recall)")
