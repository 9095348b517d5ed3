"""Which rule of attention models text best at equal parameters? (ours)

A small language model of Shakespeare's plays (task `text`, preset `shakespeare`) is trained with softmax attention, KV
shifting (Xu et al., 2024), SwitchHead with half as many maps (Csordás et al., 2023), the mixture of h − 1 heads (Peng
et al., 2020), and softmax with half as many heads. Runs of one seed see the same sequences in the same order. All have
as many parameters, by the width of their MLPs, and the same number of steps and learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core.intervals import interval_of_mean
from hopscope.drawing.curves import name_baselines, run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.tables import rows_of
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope_studies.architectures.candidates import weightless
from hopscope_studies.architectures.experiments.hops_by_architecture import flops
from hopscope_studies.architectures.text_cells import cells
from hopscope_studies.architectures.text_claims import claims as claims, last, less
from hopscope_studies.architectures.text_scores import copying

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 300, "paper": 6000}


def runs(scale: str) -> Iterator[Config]:
    """Every rule, seed by seed."""
    return (config for _, config in cells(scale))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and logged step.

    Columns: run, version, seed, prior, rule, parameters, maps (attention maps of all layers), flops (of the forward
    pass of one sequence), guess and pairs (losses of a guess and of a table of pairs), step, loss (held out, nats per
    character); of kept weights also other, same, shuffled, layer_0 and score (`text_scores.copying`).
    """
    named = {config.identity: name for name, config in cells(scale)}
    return rows_of(runs, lambda run: measured(run, named[run.config.identity]))


def measured(run: Run, name: str) -> Iterator[dict[str, Any]]:
    """One run, step by step."""
    shape, task = run.config.model, run.task
    assert isinstance(shape, Architecture)
    about: dict[str, Any] = {"rule": name, "parameters": weightless(shape, task).n_parameters}
    about |= {"maps": shape.n_layers * shape.n_heads, "flops": flops(shape, task)}
    about |= {"guess": task.chance, "pairs": task.baselines["pairs"]}
    for row in run.rows:
        scores = dict(copying(run.at(row["step"]), task)) if row["step"] in run.steps else {}
        yield about | {"step": row["step"], "loss": row["val_loss"]} | scores


@styled
def figure(table: DataFrame) -> Figure:
    """Held-out losses over training; final losses less plain attention's; gains by a repeated stretch; scores."""
    shown = picture(11.0, 7.0)
    axes = shown.subplots(2, 2).flatten()
    rules, kept = list(dict.fromkeys(table.rule)), table[table.same.notna()]
    kept = kept.assign(gain=kept.other - kept.same)
    panels = {"loss": "held-out loss (nats)", "gain": "nats saved by a repetition", "layer_0": "induction, layer 0"}
    for ax, (column, words) in zip((axes[0], axes[2], axes[3]), panels.items(), strict=True):
        rows = table if column == "loss" else kept
        for index, name in enumerate(rules):
            run_lines(ax, rows[rows.rule == name], column, color=colour(index), label=name, middle="mean")
        ax.set(xlabel="steps", ylabel=words)
    axes[0].set(ylim=(float(table.loss.min()) - 0.05, float(table.pairs.max()) + 0.3))
    name_baselines(axes[0], {"pairs": float(table.pairs.max())})
    axes[0].legend(fontsize=7)
    differences(axes[1], last(table), rules[1:])
    return shown


def differences(ax: Any, ends: DataFrame, rules: list[str]) -> None:
    """Draw each rule's final loss less plain attention's: a cross per seed, and the mean with its 95 % interval."""
    losses = ends.set_index(["rule", "seed"]).loss
    for index, name in enumerate(rules, 1):
        found = less(losses, name, "softmax")
        low, high = interval_of_mean(found.tolist())
        ax.plot(found, [index + 0.2] * len(found), "x", ms=4, color=colour(index))
        ax.errorbar(
            found.mean(), index, xerr=None if math.isnan(low) else (high - low) / 2, fmt="o", color=colour(index)
        )
    ax.axvline(0, color=GREY, lw=0.8, ls="--")
    ax.set_yticks(range(1, len(rules) + 1), rules)
    ax.set(xlabel="final loss less that of softmax (nats)", ylim=(len(rules) + 0.6, 0.4))
