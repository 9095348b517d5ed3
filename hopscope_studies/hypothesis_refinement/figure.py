"""The figure of the study: what proposers find against the closed form, noise, and language models against chance."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import points
from hopscope.drawing.style import GREY, PALETTE, picture, styled
from hopscope_studies.hypothesis_refinement.claims import PROTOCOLS

SHIFT = 0.17  # between points of one place
SHARES = (0, 0.2, 0.4, 0.6, 0.8, 1)


@styled
def figure(table: DataFrame) -> Figure:
    """Rules found by NT; rules found by noise; outputs."""
    shown = picture(12.0, 3.7)
    left, middle, right = shown.subplots(1, 3, width_ratios=[1.0, 0.9, 1.2])
    proposers = table[table.part == "proposers"]
    draw_found(left, proposers)
    draw_noise(middle, proposers)
    draw_outputs(right, table[table.part == "language"])
    return shown


def draw_found(ax: Axes, rows: DataFrame) -> None:
    """Draw the rules found by p and by the number of hypotheses; lines are the closed form, marks the two domains."""
    some = rows[(rows.measure == "found") & rows.labels.str.startswith("p ")].copy()
    some[["p", "N", "T"]] = some.labels.str.extract(r"p (\d+) N (\d+) T (\d+)").astype(int)
    some = some[some.p > 0].assign(tried=lambda frame: frame.N * frame["T"])
    tried = [n / 4 for n in range(2, 81)]
    for (p, group), ink in zip(some.groupby("p"), PALETTE, strict=False):
        ax.plot(tried, [1 - (1 - float(str(p)) / 100) ** n for n in tried], color=ink, lw=1, label=f"p = 0.{p:02d}")
        for shift, marker, (_, part) in zip((0.96, 1.04), "os", group.groupby("domain", sort=False), strict=False):
            points(ax, list(part.tried * shift), part, ink, "", marker)
    ax.set(xscale="log", ylim=(0, 1.03), xlabel="hypotheses, NT", ylabel="rules found")
    ax.set_title("1 − (1 − p)^(NT); " + ", ".join(map(" ".join, zip(rows.domain.unique(), "●■", strict=False))))
    ax.set_xticks([1, 3, 5, 15], ["1", "3", "5", "15"])
    ax.minorticks_off()
    ax.legend(loc="lower right")


def draw_noise(ax: Axes, rows: DataFrame) -> None:
    """Draw the rules found by the share of corrupted examples."""
    some = rows[rows.labels.str.startswith("noise")].copy()
    some["noise"] = some.labels.str.extract(r"(\d+)", expand=False).astype(int) if len(some) else []
    grid = list(range(8, 56))
    ax.plot(grid, [(1 - e / 100) ** 8 for e in grid], color=GREY, lw=1, label="(1 − e)^8")
    for measure, ink, shift in (
        ("right rule fits", GREY, 0.0),
        ("found by what fits", PALETTE[1], 0.8),
        ("found by what fits best", PALETTE[0], -0.8),
    ):
        for marker, (_, part) in zip("os", some[some.measure == measure].groupby("domain", sort=False), strict=False):
            points(ax, list(part.noise + shift), part, ink, measure if marker == "o" else "", marker)
    ax.set(ylim=(-0.02, 1.5), xlabel="examples spoilt, %", title="Noise, p = 0.5, N = 5, T = 3")
    ax.set_yticks(SHARES)
    ax.legend(loc="upper right")


def draw_outputs(ax: Axes, rows: DataFrame) -> None:
    """Draw language models' format rates and accuracies, with shuffled examples as control; dashes are chance."""
    some = rows[rows.labels.isin(["true", "shuffled"]) & (rows.protocol == rows.measure.map(PROTOCOLS))]
    some = some.assign(kind=some[["domain", "layout", "measure"]].apply(tuple, axis=1))
    kinds = sorted(set(some.kind), reverse=True)
    for labels, ink, shift in (("true", PALETTE[0], -SHIFT), ("shuffled", PALETTE[1], SHIFT)):
        part = some[some.labels == labels]
        points(ax, [kinds.index(kind) + shift for kind in part.kind], part, ink, f"examples {labels}")
    chance = some[(some.labels == "true") & some.chance.notna()]
    middles = [kinds.index(kind) for kind in chance.kind]
    ax.hlines(chance.chance, [x - 0.4 for x in middles], [x + 0.4 for x in middles], color=GREY, ls="--", lw=1)
    names = {"valid": "form", "raw": "right", "choice": "likelier"}
    words = [f"{names[m]}\n{layout}\n{domain}" for domain, layout, m in kinds]
    ax.set_xticks(range(len(kinds)), words, fontsize=7 if len(kinds) < 9 else 5.5)
    ax.set_yticks(SHARES)
    ax.set(ylim=(-0.02, 1.28), title=f"{' and '.join(sorted(set(rows.model)))}: what a rule makes of a ninth input")
    ax.legend(loc="upper right")
