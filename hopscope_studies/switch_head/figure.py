"""The figure of `switch_head`: loss over training, losses by distance, the choice of experts, and induction."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope_studies.switch_head.cells import MODELS

COLOURS = {model: colour(index) for index, model in enumerate(MODELS)}


@styled
def figure(table: DataFrame) -> Figure:
    """Loss on places over training and by distance; information in the choice of experts; loss on induction."""
    shown = picture(10.0, 7.0)
    axes = shown.subplots(2, 2).flatten()
    curves, ends = table[table.kind == "curve"], table[table.kind == "end"]
    courses(axes[0], curves[curves.part == "places"], "The last tokens, each run", legend(ends, "places"))
    by_distance(axes[1], table[(table.kind == "hop") & (table.part == "places")])
    choices(axes[2], ends[ends.held_accuracy.notna()])
    courses(axes[3], curves[curves.part == "induction"], "Induction, each run", legend(ends, "induction"))
    return shown


def legend(ends: DataFrame, part: str) -> dict[str, str]:
    """Each kind of model with its maps and weights."""
    firsts = ends[ends.part == part].drop_duplicates("model")
    counts = zip(firsts.model, firsts.maps, firsts.weights, strict=True)
    return {model: f"{model}: {maps:.0f} maps, {weights / 1000:.0f} k weights" for model, maps, weights in counts}


def courses(ax: Axes, curves: DataFrame, title: str, labels: dict[str, str]) -> None:
    """Draw the loss over training, a line for each run."""
    for model in (m for m in MODELS if m in labels):
        part = curves[curves.model == model]
        run_lines(ax, part, "hop_loss", color=COLOURS[model], label=labels[model], lw=1, alpha=1)
    ax.set(xlabel="steps", ylabel="loss (nats)", title=title)
    ax.legend(fontsize=7)


def by_distance(ax: Axes, hops: DataFrame) -> None:
    """Draw the final losses at each distance, for every run."""
    for index, model in enumerate(MODELS):
        part = hops[hops.model == model]
        distance = part.hop.astype(str).str.replace("−", "").astype(float)
        ax.plot(distance + 0.1 * (index - 2.5), part.hop_loss, "o", ms=3, color=COLOURS[model], label=model)
    if len(hops):
        ax.axhline(hops.guess.max(), color=GREY, lw=0.8, ls="--")
    ax.set(xlabel="tokens back", ylabel="final loss (nats)", title="Each place, each run")
    ax.legend(fontsize=7)


def choices(ax: Axes, ends: DataFrame) -> None:
    """Draw the information in the widest gates of values and outputs, before and after training."""
    groups = [(part, model) for part in ("places", "induction") for model in ("experts", "wide experts")]
    groups = [(part, model) for part, model in groups if len(ends[(ends.part == part) & (ends.model == model)])]
    for x, (part, model) in enumerate(groups):
        rows = ends[(ends.part == part) & (ends.model == model)]
        for shift, (name, mark) in enumerate(
            (("values_by_place", "o"), ("values_by_token", "^"), ("outputs_by_place", "s"), ("outputs_by_token", "v"))
        ):
            spot, label = x + 0.2 * (shift - 1.5), None if x else name.replace("_", " ")
            ax.plot([spot - 0.04] * len(rows), rows[f"start_{name}"], mark, color=GREY, ms=4)
            ax.plot([spot + 0.04] * len(rows), rows[name], mark, color=colour(shift), ms=4, label=label)
    ax.set_xticks(range(len(groups)), [f"{part}\n{model}" for part, model in groups])
    ax.set(ylabel="information / ln E", title="What the choice of experts tells (grey: untrained)", ylim=(-0.05, 1.4))
    ax.legend(fontsize=7, ncols=2)
