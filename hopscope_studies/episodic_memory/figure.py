"""The figure of `episodic_memory`: lag curves of heads, distances, contiguity over training, silenced heads."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.episodic_memory.claims import copying, last, without
from hopscope_studies.episodic_memory.context_maintenance import LAGS
from hopscope_studies.episodic_memory.fit import NEAR


@styled
def figure(table: DataFrame) -> Figure:
    """Curves of copying heads, every head's distance, contiguity over training, and contiguity without heads."""
    shown = picture(10.0, 7.0)
    curves, distances, training, silenced = shown.subplots(2, 2).flatten()
    heads, answered = table[table.kind == "head"], table[table.kind == "answer"]
    lag_curves(curves, copying(last(heads)))
    scatter(distances, last(heads))
    over_training(training, answered)
    by_silenced(silenced, last(answered), table[table.kind == "silenced"])
    return shown


def lag_curves(ax: Axes, best: DataFrame) -> None:
    """Draw attention by lag."""
    lags = range(-LAGS, LAGS + 1)
    for _, row in best.iterrows():
        ax.plot(lags, [row[f"lag_{lag}"] for lag in lags], lw=1.0, color=colour(int(row.heads > 1)))
    ax.set(xlabel="lag from the token's place in the list", ylabel="attention", title="Heads that copy")


def scatter(ax: Axes, ends: DataFrame) -> None:
    """Draw the CMR distance over the attention at lag +1."""
    for index, (n_heads, part) in enumerate(ends.groupby("heads")):
        ax.plot(part.lag_1, part.distance, "o", ms=4, color=colour(index), label=f"{n_heads:g} head(s) a layer")
    ax.axhline(NEAR, color=GREY, lw=0.8, ls="--")
    ax.set(xlabel="attention at lag +1", ylabel="CMR distance", title="Every head (dashed: CMR-like below)")
    ax.legend()


def over_training(ax: Axes, answered: DataFrame) -> None:
    """Draw the contiguity of every run."""
    for _, part in answered.groupby("run"):
        ax.plot(part.step, part.contiguity, lw=1.0, color=colour(int(part.heads.iloc[0] > 1)))
    ax.axhline(1, color=GREY, lw=0.8, ls="--")
    ax.set_yscale("log")
    ax.set(xlabel="steps", ylabel="contiguity", title="Answers (dashed: even recall)")


def by_silenced(ax: Axes, ends: DataFrame, silenced: DataFrame) -> None:
    """Draw the contiguity of whole models, without all copying heads, and without one of several."""
    groups = (
        ("whole", ends),
        ("without all\ncopying heads", without(silenced, "all")),
        ("without one\nof several", without(silenced, "one")),
    )
    for place, (_, part) in enumerate(groups):
        for n_heads, rows in part.groupby("heads"):
            index = int(float(str(n_heads)) > 1)
            ax.plot([place + 0.1 * index] * len(rows), rows.contiguity, "o", ms=4, color=colour(index))
    ax.axhline(1, color=GREY, lw=0.8, ls="--")
    ax.set_yscale("log")
    ax.set_xticks(range(len(groups)), [name for name, _ in groups])
    ax.set(ylabel="contiguity", title="What contiguity needs")
