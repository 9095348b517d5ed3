"""The figure of `facts`: curves with their phases, those of the control, facts over parameters, and the grid."""

from __future__ import annotations

import math

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from pandas import DataFrame

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.capacity import ENOUGH
from hopscope_studies.facts.claims import PER_PARAMETER, phases_of, swept

PHASE_TINTS = {"nothing known": GREY, "hallucination": "#D55E00", "all known": "#009E73"}


@styled
def figure(table: DataFrame) -> Figure:
    """Curves with their phases, those of the control, facts over parameters, and the grid of heads and MLP."""
    shown = picture(10.0, 7.4)
    even, control, facts, grid = shown.subplots(2, 2).flatten()
    curves(even, table, "even", "Facts of subject and relation, and the phases found")
    curves(control, table, "anywhere", "Control: relations have no answers of their own")
    held(facts, table)
    cells = table[table.kind == "trade_off"].groupby(["attention", "mlp"], as_index=False).recall.mean()
    dots = grid.scatter(cells.attention, cells.mlp, c=cells.recall, cmap="viridis", vmin=0, vmax=1, s=60)
    enough = cells[cells.recall >= ENOUGH]
    grid.scatter(enough.attention, enough.mlp, s=150, facecolors="none", edgecolors="black")
    shown.colorbar(dots, ax=grid, label="recall, mean over seeds (ring: 0.99)")
    grid.set(xlabel="attention's parameters", ylabel="MLP's parameters", title="The same facts in either")
    return shown


def curves(ax: Axes, table: DataFrame, facts: str, title: str) -> None:
    """Draw the losses of the first seed, with its phases in the background."""
    rows = table[(table.kind == "curve") & (table.facts == facts)]
    rows = rows[rows.seed == rows.seed.min()].sort_values("step")
    for index, (name, words) in enumerate(
        (("loss", "whole answer"), ("relation_only", "relation only"), ("subject_only", "subject only"))
    ):
        ax.plot(rows.step, rows[name], lw=1.4, color=colour(index), label=words)
    ax.plot(rows.step, rows.other_subject, lw=1.0, ls=":", color=GREY, label="asked with another subject")
    found = phases_of(table, facts)
    for phase in found[found.run == rows.run.iloc[0]].itertuples():
        if phase.first == phase.first:
            tint = PHASE_TINTS[str(phase.phase)]
            ax.axvspan(phase.first, phase.last, color=tint, alpha=0.12, lw=0, label=f"{phase.phase}")  # type: ignore[arg-type]
    answers, relations = rows.answers.iloc[0], rows.relations.iloc[0]
    for level in (math.log(answers * relations), math.log(answers)):
        ax.axhline(level, color=GREY, lw=0.8, ls="--", zorder=0)
    ax.set(
        xlabel="steps of gradient descent", ylabel="nats", ylim=(0, 1.6 * math.log(answers * relations)), title=title
    )
    ax.legend(fontsize=7, ncols=2, loc="upper right")


def held(ax: Axes, table: DataFrame) -> None:
    """Draw the number of facts recalled over the number of parameters, with and without an MLP."""
    found = swept(table).dropna(subset="held")
    for index, (with_mlp, words) in enumerate(((False, "attention only"), (True, "attention and MLP"))):
        part = found[(found.beta > 0) == with_mlp]
        if len(part):
            ax.plot(part.parameters, part.held, "o", ms=4, color=colour(index), label=words)
    if len(found):
        ends = numpy.array([found.parameters.min(), found.parameters.max()])
        ax.plot(ends, PER_PARAMETER * ends, "--", lw=1.0, color=GREY, label="0.15 per parameter (paper)")
        ax.legend(fontsize=7)
    ax.set(xscale="log", yscale="log", xlabel="parameters", ylabel="facts recalled", title="What one layer holds")
    ax.xaxis.set_minor_formatter(NullFormatter())  # its labels would overlap
