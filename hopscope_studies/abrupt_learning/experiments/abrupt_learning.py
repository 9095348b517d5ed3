"""In-context classification is learnt abruptly, and not at all where L = N (Reddy, 2024, sections 3 and 4).

Per seed: the course of learning, with its progress measures, when only the context can answer; and the same with as
many labels as pairs, by optimizer and by whether labels may repeat. Beside them stand the three nested logits. See the
study's README.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame, concat

from hopscope.configuration.config import Config
from hopscope.experiments.long_table import courses_of, entry, namer
from hopscope.experiments.tables import rows_by_hand, rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.runs.run import Run
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.abrupt_learning.answers import ending, judged
from hopscope_studies.abrupt_learning.by_hand import induction
from hopscope_studies.abrupt_learning.cells import ABRUPT, NEW, TASK, cell, cells, streamed
from hopscope_studies.abrupt_learning.claims import BY_HAND, claims as claims
from hopscope_studies.abrupt_learning.figure import figure as figure
from hopscope_studies.abrupt_learning.theory.nested_logits import NestedLogits

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 500, "paper": 100_000}
#: By hand and trained models stand in one table.
COMPARES_RUNS = True
SEEDS = {"quick": 1, "cpu": 5, "paper": 6}
#: Pairs and labels of the nested logits.
NESTED = ((8, 8), (8, 9), (8, 10), (8, 12), (8, 16), (8, 32))
HAND = {**TASK, **NEW, "d_item": 256}


def runs(scale: str) -> Iterator[Config | Work]:
    """Every condition with every seed; and the nested logits."""
    yield from cells(ABRUPT, range(SEEDS[scale]), scale)
    short = {"steps": 200} if scale == "quick" else {}
    yield from (NestedLogits(n_pairs=n, n_labels=labels, **short) for n, labels in NESTED)


def table(finished: list[Run | Finished], scale: str) -> DataFrame:
    """Rows on the course and the final answers of every run, on the hand-set model, and on the nested logits."""
    trained, name_of = [one for one in finished if isinstance(one, Run)], namer(ABRUPT, cell, scale)
    task = ItemLabels(**HAND)
    answers = (entry({}, kind, name, value) for kind, name, value in judged(induction(task), task))
    made, courses = rows_by_hand(answers, condition=BY_HAND), courses_of(trained, name_of, streamed)
    ends = rows_of(finished, lambda run: ending(run, name_of(run.config)))
    return concat([courses, made, ends], ignore_index=True).round({"value": 5})
