"""Rows about runs: each has the run's identity, seed and prior, so that claims can name them and pair runs by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pandas import DataFrame

from hopscope.experiments.priors import COLUMN, prior_of
from hopscope.runs.run import Run


def columns_of(run: Run) -> dict[str, Any]:
    """The columns of all rows of a run: run (identity), version (of the code that trained it), seed, prior."""
    return {
        "run": run.config.identity,
        "version": run.sessions[-1]["environment"]["code"],
        "seed": run.config.training.seed,
        COLUMN: prior_of(run.config),
    }


def rows_of(runs: Iterable[Run], measure: Callable[[Run], Iterable[Mapping[str, Any]]]) -> DataFrame:
    """The rows that a function measures of each run, as a tidy table.

    Args:
        runs: finished runs.
        measure: returns a run's rows: numbers by name, such as `{"layer": 0, "hop": "x1", "loss": 0.02}`.

    Returns:
        Columns run, version, seed, prior (`columns_of`), then those of the rows.
    """
    return DataFrame([{**columns_of(run), **row} for run in runs for row in measure(run)])
