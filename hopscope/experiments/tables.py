"""Rows about runs and finished work: each says of which, with seed and prior, so that claims can pair them by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pandas import DataFrame

from hopscope.core.environment import code_version
from hopscope.experiments.priors import COLUMN, prior_of
from hopscope.experiments.work import Finished
from hopscope.runs.run import Run

Rows = Iterable[Mapping[str, Any]]


def columns_of(one: Run | Finished) -> dict[str, Any]:
    """The columns of all rows of a run or of finished work.

    Of a run: run (identity), version (of the code that trained it), seed, prior. Of work: run, version, `Work.about`.
    """
    if isinstance(one, Finished):
        return {"run": one.work.identity, "version": one.version, **one.work.about()}
    return {
        "run": one.config.identity,
        "version": one.sessions[-1]["environment"]["code"],
        "seed": one.config.training.seed,
        COLUMN: prior_of(one.config),
    }


def rows_of(finished: Iterable[Run | Finished], measure: Callable[[Run], Rows] = lambda _: ()) -> DataFrame:
    """The rows that a function measures of each run, and those that finished work left, as a tidy table.

    Args:
        finished: runs and work.
        measure: returns a run's rows: numbers by name, such as `{"layer": 0, "hop": "x1", "loss": 0.02}`.

    Returns:
        Columns run, version, seed, prior (`columns_of`), then those of the rows.
    """
    return DataFrame([{**columns_of(one), **row} for one in finished for row in rows_in(one, measure)])


def rows_by_hand(rows: Rows, **about: Any) -> DataFrame:
    """Rows about a model made by hand, which is no run: with run `by hand`, the code's version, seed 0, and `about`."""
    about = {"run": "by hand", "version": code_version(), "seed": 0, **about}
    return DataFrame([{**about, **row} for row in rows])


def rows_in(one: Run | Finished, measure: Callable[[Run], Rows]) -> Rows:
    """The rows of a run, by measuring it, or of work, as it left them; without the columns that they share."""
    return one.rows() if isinstance(one, Finished) else measure(one)
