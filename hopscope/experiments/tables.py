"""Rows about runs: each says of which run it is, so that claims can name seeds and priors and pair runs by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pandas import DataFrame

from hopscope.experiments.priors import COLUMN, prior_of
from hopscope.runs.run import Run


def columns_of(run: Run) -> dict[str, Any]:
    """What all rows of a run say: run (its identity), version (of the code that trained it), seed, prior (in words)."""
    return {
        "run": run.config.identity,
        "version": run.sessions[-1]["environment"]["code"],
        "seed": run.config.training.seed,
        COLUMN: prior_of(run.config),
    }


def rows_of(runs: Iterable[Run], measure: Callable[[Run], Iterable[Mapping[str, Any]]]) -> DataFrame:
    """What a function measures of each run, a row each, as a tidy table.

    Args:
        runs: finished.
        measure: of a run, its rows: numbers by name, such as `{"layer": 0, "hop": "x1", "loss": 0.02}`.

    Returns:
        Columns run, version, seed, prior (`columns_of`), then what the function gives.
    """
    return DataFrame([{**columns_of(run), **row} for run in runs for row in measure(run)])
