"""Tables with one number per row, with condition, kind and name: for experiments with many different quantities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.experiments.curves import crossing
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished
from hopscope.runs.run import Run

#: Names the condition that a configuration is a run of.
Named = Callable[[Config], str]
C = TypeVar("C")  # a study's kind of condition
Rows = Iterator[dict[str, Any]]


def namer(named: Mapping[str, C], cell: Callable[[C, int, str], Config], scale: str) -> Named:
    """A function that names a run's condition, if `cell` makes the run of a condition, seed and scale."""

    def name_of(config: Config) -> str:
        seed = config.training.seed
        return next(name for name, one in named.items() if cell(one, seed, scale).identity == config.identity)

    return name_of


def entry(of: dict[str, Any], kind: str, name: str, value: float | None, step: int = 0) -> dict[str, Any]:
    """One row; an unknown value, or a time that never came, is NaN."""
    return {**of, "kind": kind, "name": name, "step": step, "value": math.nan if value is None else value}


def courses_of(
    runs: Iterable[Run | Finished], named: Named, streamed: Callable[[dict[str, Any]], dict[str, float]]
) -> DataFrame:
    """Losses and measures over training, and when the loss passed the task's threshold of learning.

    Columns: run, version, seed, prior, condition, kind, name, step, value. Kinds: `loss`, the validation loss; `right`,
    validation accuracy, if it may stop training; `seen`, the numbers that `streamed` computes from a row's measures;
    `learnt`, the first step with a loss below `Task.learnt_below`, interpolated (NaN: never), in a row at the last
    step.
    """
    return rows_of(runs, lambda run: course(run, {"condition": named(run.config)}, streamed))


def course(run: Run, of: dict[str, Any], streamed: Callable[[dict[str, Any]], dict[str, float]]) -> Rows:
    """The rows of one run."""
    rows = run.rows  # read and checked once
    steps, losses = [row["step"] for row in rows], [row["val_loss"] for row in rows]
    yield entry(of, "learnt", "all", crossing(steps, losses, run.task.learnt_below), steps[-1])
    for row in rows:
        yield entry(of, "loss", "validation", row["val_loss"], row["step"])
        if "accuracy" in row:
            yield entry(of, "right", "validation", row["accuracy"], row["step"])
        for name, value in streamed(row.get("measures", {})).items():
            yield entry(of, "seen", name, value, row["step"])


def values(table: DataFrame, condition: str, kind: str, name: str | None = None) -> DataFrame:
    """The rows of a condition, a kind and perhaps a name."""
    rows = table[(table.condition == condition) & (table.kind == kind)]
    return rows if name is None else rows[rows.name == name]


def learnt(table: DataFrame, condition: str) -> Series:
    """The step at which a condition was learnt, by seed; ∞ if it was not learnt in training."""
    return values(table, condition, "learnt").set_index("seed").value.fillna(math.inf)
