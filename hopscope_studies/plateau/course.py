"""The course of runs as tables: each hop's loss and the two factors over training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.experiments.curves import endings_of, hop_curves_of
from hopscope.runs.run import Run


def courses_of(
    runs: Iterable[Run], *, whole: Callable[[Config], bool] = lambda _: True, **columns: Callable[[Config], Any]
) -> DataFrame:
    """A row per run, step and hop; for runs that are not `whole`, only the first and the last step.

    Columns: those of `hop_curves_of`, then learnt (the step at which the hop was learnt; NaN: not in training), steps
    (the most that are trained), joined (join attention of layer 0's best head), joined_later (of the best head of all
    other layers), look_up (look-up attention of the best head after layer 0).
    """
    runs = list(runs)
    curves = hop_curves_of(runs, **columns)
    seen = pandas.concat([factors_of(run) for run in runs], ignore_index=True)
    found = curves.merge(seen, on=["run", "step"], validate="many_to_one")
    found = found.merge(endings_of(runs)[["run", "hop", "learnt", "steps"]], on=["run", "hop"])
    kept = found.run.isin([run.config.identity for run in runs if whole(run.config)])
    ends = (found.step == 0) | (found.step == found.groupby("run").step.transform("max"))
    return (
        found[kept | ends]
        .drop(columns="val_loss")
        .round({"hop_loss": 4, "joined": 4, "joined_later": 4, "look_up": 4, "learnt": 1})
    )


def factors_of(run: Run) -> DataFrame:
    """Join attention and look-up attention at each logged step."""
    rows = []
    for row in run.rows:
        joins, looks = (row["measures"][name] for name in ("join_attention", "look_up_attention"))
        rows.append(
            {
                "run": run.config.identity,
                "step": row["step"],
                "joined": best(joins, first=True),
                "joined_later": best(joins, first=False),
                "look_up": best(looks, first=False),
            }
        )
    return DataFrame(rows)


def best(heads: Mapping[str, float], *, first: bool) -> float:
    """The highest value of a head in layer 0, or of a head in later layers; NaN if there is none."""
    return max((value for name, value in heads.items() if name.startswith("L0H") == first), default=math.nan)


def endings(table: DataFrame) -> DataFrame:
    """The last row of each run and hop, with `joined_start`, the join attention at the first step."""
    ordered = table.sort_values("step", kind="stable")
    last = ordered.groupby(["run", "hop"], sort=False).last().reset_index()
    last["joined_start"] = last.run.map(ordered.groupby("run").joined.first())
    return last


def times(table: DataFrame) -> Series:
    """The step at which the last hop of each run was learnt; ∞ if some hop was not."""
    return table.drop_duplicates(["run", "hop"]).fillna({"learnt": math.inf}).groupby("run").learnt.max()


def hop_times(table: DataFrame, hop: str) -> Series:
    """The step at which one hop of each run was learnt; ∞ if it was not."""
    part = table[table.hop == hop].drop_duplicates("run")
    return part.fillna({"learnt": math.inf}).set_index("run").learnt
