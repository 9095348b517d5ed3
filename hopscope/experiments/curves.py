"""Losses over training and how runs ended, as the tables of experiments have them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.runs.run import Run


def hop_curves_of(runs: Iterable[Run], **columns: Callable[[Config], Any]) -> DataFrame:
    """Validation losses over training, one row per run, step and hop.

    Columns: run, version, seed, then one per keyword (a function of the configuration), step, val_loss, hop, hop_loss.
    """
    rows = []
    for run in runs:
        about = {
            "run": run.config.identity,
            "version": run.sessions[-1]["environment"]["code"],
            "seed": run.config.training.seed,
            **{name: of(run.config) for name, of in columns.items()},
        }
        for row in run.rows:
            for hop, loss in row["hop_losses"].items():
                rows.append({**about, "step": row["step"], "val_loss": row["val_loss"], "hop": hop, "hop_loss": loss})
    return DataFrame(rows)


#: Partial losses: of the paper's section 7.2, which has four chains (of others `Task.learnt_below`), and ours.
LEARNT, SOLVED = 0.5, 0.05


def endings_of(runs: Iterable[Run], **columns: Callable[[Config], Any]) -> DataFrame:
    """How each run ended, one row per run and hop.

    Columns: run, version, seed, one per keyword (a function of the configuration), hop, k (of x_k; of hops without a
    number their place), loss (mean over the last 100 steps), learnt (the step at which the loss went below the task's
    threshold of learning; NaN: never), solved (whether the loss ended below 0.05), steps (trained).
    """
    runs = list(runs)
    curves = hop_curves_of(runs, **columns)
    found = curves[["run", "version", "seed", *columns, "hop"]].drop_duplicates().set_index(["run", "hop"])
    below = {run.config.identity: run.task.learnt_below for run in runs}
    found = found.assign(loss=final(curves), learnt=first_below(curves, below)).reset_index()
    places = found.groupby("run").cumcount() + 1
    numbers = [re.search(r"\d+$", str(hop)) for hop in found.hop]
    found["k"] = [int(number[0]) if number else place for number, place in zip(numbers, places, strict=True)]
    found["steps"] = found.run.map({run.config.identity: run.config.training.steps for run in runs})
    return found.assign(solved=found.loss < SOLVED)


def final(curves: DataFrame, value: str = "hop_loss", last: int = 100) -> pandas.Series:
    """Mean over the last `last` steps, per run and hop (paper, section 7.1: the last 100)."""
    recent = curves[curves.step > curves.groupby("run").step.transform("max") - last]
    return recent.groupby(["run", "hop"])[value].mean()


def first_below(curves: DataFrame, threshold: float | Mapping[str, float]) -> pandas.Series:
    """Per run and hop the step at which the loss first goes below a threshold, linearly interpolated; NaN if never.

    The threshold is one for all, or one for each run.
    """
    found = {}
    for key, curve in curves.sort_values("step").groupby(["run", "hop"]):
        bound = threshold if isinstance(threshold, float) else threshold[str(key[0])]
        found[key] = crossing(curve.step.tolist(), curve.hop_loss.tolist(), bound)
    index = pandas.MultiIndex.from_tuples(list(found), names=["run", "hop"])
    return pandas.Series(list(found.values()), index=index, dtype=float)


def crossing(steps: list[float], losses: list[float], threshold: float) -> float:
    """Where a falling curve first meets a threshold; NaN if it never does."""
    for i, loss in enumerate(losses):
        if loss < threshold:
            if i == 0:
                return float(steps[0])
            share = (losses[i - 1] - threshold) / (losses[i - 1] - loss)
            return steps[i - 1] + share * (steps[i] - steps[i - 1])
    return math.nan
