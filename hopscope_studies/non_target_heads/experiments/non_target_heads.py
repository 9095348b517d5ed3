"""Two heads on one trunk: what does one predict on the other's questions, and does the other compute with it?

After Geva et al. (2021, arXiv:2104.06129, abstract), in our own analogue on chains of two hops (Guo et al., 2025,
arXiv:2502.13913).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, concat

from hopscope.configuration.config import Config
from hopscope.experiments.circuit_tables import circuit_numbers, circuit_of
from hopscope.experiments.long_table import entry
from hopscope.experiments.tables import rows_by_hand, rows_of
from hopscope.models.transformer import Transformer
from hopscope.runs.run import Run
from hopscope_studies.non_target_heads.by_hand import by_hand
from hopscope_studies.non_target_heads.cells import TASKS, cells
from hopscope_studies.non_target_heads.claims import claims as claims
from hopscope_studies.non_target_heads.figure import figure as figure
from hopscope_studies.non_target_heads.scores import cuts, probed, readings, swaps
from hopscope_studies.non_target_heads.tasks.tagged_hops import TaggedHops

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 300, "paper": 100_000}
#: Hand-set and trained models share one table.
COMPARES_RUNS = True
CIRCUITS = {"quick": 0, "cpu": 3, "paper": 3}  # number of seeds in which circuits are searched for
SEARCHED = ("together", "alone", "ordered")


def runs(scale: str) -> Iterator[Config]:
    """Every model."""
    return (config for _, config in cells(scale))


def table(runs: list[Run], scale: str) -> DataFrame:
    """Rows with run, version, seed, condition, kind, name, step, value.

    Kinds: `end`, the answers of both heads and of a head fitted afterwards, and the effects of cutting and exchanging
    directions (`scores`); `start`, the heads' answers before training; `curve`, accuracy on what is asked; `circuit`,
    verdict and paths.
    """
    named = {config.identity: name for name, config in cells(scale)}
    found = rows_of(runs, lambda run: measured(run, named[run.config.identity], scale))
    task = TaggedHops(**TASKS[scale])
    answers = (entry({}, "end", name, value) for name, value in judged(by_hand(task), task, scale))
    return concat([rows_by_hand(answers, condition="by hand"), found], ignore_index=True).round({"value": 6})


def judged(model: Transformer, task: TaggedHops, scale: str) -> Iterator[tuple[str, float]]:
    """All measurements of a trained model."""
    for measured in (readings, probed, cuts, swaps):
        yield from measured(model, task, scale)


def measured(run: Run, condition: str, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on one model; for the first seeds of some also on its circuit: verdict (1: accepted), paths and losses."""
    yield from ({"condition": condition, **row} for row in numbers(run, scale))
    if run.config.training.seed < CIRCUITS[scale] and condition in SEARCHED:
        found = circuit_numbers(run, scale)
        verdict = entry({}, "circuit", circuit_of(run, scale).verdict, found.pop("accepted"))
        yield {"condition": condition, **verdict, **found}


def numbers(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on a run's final and initial answers, and on its course."""
    task, model, first = run.task, run.model, run.at(0)
    assert isinstance(task, TaggedHops) and isinstance(model, Transformer) and isinstance(first, Transformer)
    for name, value in judged(model, task, scale):
        yield entry({}, "end", name, value, run.steps[-1])
    for name, value in readings(first, task, scale):
        yield entry({}, "start", name, value)
    for row in run.rows:
        yield entry({}, "curve", "accuracy", row["accuracy"], row["step"])
