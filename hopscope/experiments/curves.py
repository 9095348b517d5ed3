"""Losses over training and how runs ended, for the tables of experiments."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy
from pandas import DataFrame, MultiIndex, Series

from hopscope.configuration.config import Config
from hopscope.emergence.onset import passing
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run

#: The column or columns that identify a run.
By = str | Sequence[str]


def hop_curves_of(runs: Iterable[Run], **columns: Callable[[Config], Any]) -> DataFrame:
    """Validation losses over training, one row per run, step and hop.

    Columns: run, version, seed, prior, then one per keyword (a function of the configuration), step, val_loss, hop,
    hop_loss.
    """

    def course(run: Run) -> Iterator[dict[str, Any]]:
        settings = {name: of(run.config) for name, of in columns.items()}
        for row in run.rows:
            for hop, loss in row["hop_losses"].items():
                yield {**settings, "step": row["step"], "val_loss": row["val_loss"], "hop": hop, "hop_loss": loss}

    return rows_of(runs, course)


#: Losses by hop: learnt, for the paper's four chains (section 7.2; else `Task.learnt_below`); and solved (ours).
LEARNT, SOLVED = 0.5, 0.05


def endings_of(runs: Iterable[Run], **columns: Callable[[Config], Any]) -> DataFrame:
    """How each run ended, one row per run and hop.

    Columns: run, version, seed, prior, one per keyword (a function of the configuration), hop, k (of x_k; for hops
    without a number their rank), loss (mean over the last 100 steps), learnt (the step at which the loss fell below
    the task's threshold of learning; NaN: never), solved (whether the loss ended below 0.05), steps (trained).
    """
    runs = list(runs)
    curves = hop_curves_of(runs, **columns)
    endings = curves.drop(columns=["step", "val_loss", "hop_loss"]).drop_duplicates().set_index(["run", "hop"])
    below = {run.config.identity: run.task.learnt_below for run in runs}
    endings = endings.assign(loss=final(curves), learnt=first_below(curves, below)).reset_index()
    places = endings.groupby("run").cumcount() + 1
    numbers = [re.search(r"\d+$", str(hop)) for hop in endings.hop]
    endings["k"] = [int(number[0]) if number else place for number, place in zip(numbers, places, strict=True)]
    endings["steps"] = endings.run.map({run.config.identity: run.config.training.steps for run in runs})
    return endings.assign(solved=endings.loss < SOLVED)


def final(curves: DataFrame, value: str = "hop_loss", last: int = 100, by: By = "run") -> Series:
    """Mean over the last `last` steps, per run and hop (paper, section 7.1: the last 100).

    `by` is as for `first_below`. Raises ValueError as it does.
    """
    recent = curves[curves.step > curves.groupby("run").step.transform("max") - last]
    return recent.groupby([*naming(recent, by), "hop"])[value].mean()


def first_below(curves: DataFrame, threshold: float | Mapping[str, float], by: By = "run") -> Series:
    """The step at which the loss first falls below a threshold, per run and hop, interpolated; NaN if it never does.

    Args:
        curves: as `hop_curves_of` makes them.
        threshold: one for all runs, or one for each.
        by: the column or columns that identify a run in the index. Series by `"seed"` are paired by seed when one is
            divided by another or subtracted from it. By `("decay", "seed")`, `steps[1.0] / steps[0.0]` compares two
            settings.

    Raises:
        ValueError: several runs have the same name.
    """
    steps = {}
    names = naming(curves, by)
    for key, curve in curves.sort_values("step").groupby([*names, "hop"]):
        bound = threshold if isinstance(threshold, float) else threshold[str(curve.run.iloc[0])]
        steps[key] = crossing(curve.step.tolist(), curve.hop_loss.tolist(), bound)
    index = MultiIndex.from_tuples(list(steps), names=[*names, "hop"])
    return Series(list(steps.values()), index=index, dtype=float)


def naming(curves: DataFrame, by: By) -> list[str]:
    """The columns that identify a run. Raises ValueError if several runs agree in them."""
    names = [by] if isinstance(by, str) else list(by)
    if (curves.groupby(names).run.nunique() > 1).any():
        columns = ", ".join(names)
        raise ValueError(f"two runs or more have the same {columns}; name what they differ in: by=('setting', 'seed')")
    return names


def crossing(steps: list[float], losses: list[float], threshold: float) -> float:
    """Where a falling curve first falls below a threshold, interpolated; NaN if it never does, or has no values.

    A curve that is below it from the beginning has its first step, though it may have fallen before.
    """
    step = float(passing(steps, -numpy.array([losses]), numpy.array([-threshold]))[0]) if losses else math.inf
    return float(steps[0]) if step == -math.inf else math.nan if step == math.inf else step
