"""Runs as a table: one number a row, with what it is and of which condition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pandas import DataFrame

from hopscope.experiments.curves import crossing
from hopscope.runs.run import Run
from hopscope.studies.induction_formation.cells import Condition, name_of

STRENGTHS = {"induction": ("induction_strength", "L1"), "previous token": ("previous_token_score", "L0")}


def about(run: Run, named: Mapping[str, Condition], scale: str) -> dict[str, Any]:
    """The columns that all of a run's rows share."""
    return {
        "run": run.config.identity,
        "version": run.sessions[-1]["environment"]["code"],
        "seed": run.config.training.seed,
        "condition": name_of(run.config, named, scale),
    }


def course_of(runs: Iterable[Run], named: Mapping[str, Condition], scale: str) -> DataFrame:
    """Losses and the best heads over training, and when the phase change was.

    Columns: run, version, seed, condition, kind, name, step, value. Kinds: `loss`, of validation; `best`, the best
    head's strength; `learnt`, the first step with a loss below 0.4 of picking any label of the context (NaN: never).
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        of = about(run, named, scale)
        steps, losses = [row["step"] for row in run.rows], [row["val_loss"] for row in run.rows]
        change = crossing(steps, losses, run.task.learnt_below)
        rows.append({**of, "kind": "learnt", "name": "phase change", "step": steps[-1], "value": change})
        for row in run.rows:
            here = {**of, "step": row["step"]}
            rows.append({**here, "kind": "loss", "name": "validation", "value": row["val_loss"]})
            for name, (measure, layer) in STRENGTHS.items():
                heads = [x for head, x in row["measures"][measure].items() if head.startswith(layer)]
                rows.append({**here, "kind": "best", "name": name, "value": max(heads)})
    return DataFrame(rows).round({"value": 4})


def values(table: DataFrame, condition: str, kind: str, name: str | None = None) -> DataFrame:
    """Some of the rows."""
    found = table[(table.condition == condition) & (table.kind == kind)]
    return found if name is None else found[found.name == name]


def learnt(table: DataFrame, condition: str) -> dict[int, float]:
    """When the phase change of a condition was, by seed; ∞ where it was not while it was watched."""
    rows = values(table, condition, "learnt")
    return {
        int(seed): math.inf if math.isnan(step) else float(step)
        for seed, step in zip(rows.seed, rows.value, strict=True)
    }


def ratios(table: DataFrame, one: str, other: str) -> list[float]:
    """Of every seed that both conditions have, when one changed over when the other did; NaN if neither ever did."""
    first, second = learnt(table, one), learnt(table, other)
    return [ratio(first[seed], second[seed]) for seed in sorted(first.keys() & second.keys())]


def ratio(one: float, other: float) -> float:
    """Of two times, of which ∞ is never."""
    if math.isinf(one):
        return math.nan if math.isinf(other) else math.inf
    return one / other
