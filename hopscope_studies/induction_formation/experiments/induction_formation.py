"""An induction head forms: plateau, phase change and several heads (Singh et al., 2024, sections 3 and 4).

The experiment has the free model with 8 seeds, the same with more classes or more labels (section 5), a hand-set
circuit, and the untrained model as the first row of each course. See the study's README.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, concat

from hopscope.builds.item_induction import induction
from hopscope.configuration.config import Config
from hopscope.experiments.long_table import courses_of, entry, namer
from hopscope.experiments.tables import rows_by_hand, rows_of
from hopscope.runs.run import Run
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.induction_formation.cells import FREE, TASK, best, cell, cells
from hopscope_studies.induction_formation.claims import BY_HAND, claims as claims
from hopscope_studies.induction_formation.figure import figure as figure
from hopscope_studies.induction_formation.heads import judged

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 240, "paper": 15_000}
#: By hand and trained models stand in one table.
COMPARES_RUNS = True
SEEDS = {"quick": 1, "cpu": 8, "paper": 8}


def runs(scale: str) -> Iterator[Config]:
    """The free model and the other data, with every seed."""
    return cells(FREE, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """Rows on the course of every run; for free runs and the hand-set model also on what heads are worth."""
    task, name_of = ItemLabels(**TASK), namer(FREE, cell, scale)
    made = rows_by_hand(told({}, induction(task), task, 0), condition=BY_HAND)
    free = [run for run in runs if name_of(run.config) == "free"]
    worth = rows_of(free, lambda run: told({"condition": "free"}, run.model, run.config.task, run.step))
    return concat([courses_of(runs, name_of, best), made, worth], ignore_index=True).round({"value": 5})


def told(of: dict[str, Any], model: Any, task: Any, step: int) -> list[dict[str, Any]]:
    """Rows on what a model's heads are worth."""
    return [entry(of, kind, name, value, step) for kind, name, value in judged(model, task)]
