"""How runs on k hops ended, and claims about them: what `k_hop` and `easy_to_hard` share."""

from __future__ import annotations

from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.curves import final, first_below
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.values import lags

TALK = "Bietti's talk on arXiv:2505.23683"
CHANCE, FACTOR = 0.9, 0.5  # a loss above this share of ln N is at chance (ours); below this one it is learnt
FREE = ("implicit", "mixture")  # curricula that do not force the order in which hops are learnt


def ends(table: DataFrame) -> DataFrame:
    """A row per run and number of hops.

    Columns are those of the table, with `loss` (at the end, as a share of chance), `learnt` (the step at which the loss
    fell below half of chance; NaN: never) and `steps` (the run's last step).
    """
    about = table.drop_duplicates(["run", "hop"]).set_index(["run", "hop"])
    shares = table.assign(hop_loss=table.hop_loss / table.chance)
    found = about.assign(loss=final(shares), learnt=first_below(shares, FACTOR)).reset_index()
    return found.assign(steps=found.run.map(table.groupby("run").step.max()))


def at_k(table: DataFrame, curriculum: str) -> DataFrame:
    """How the k hops of the runs of one curriculum ended."""
    found = ends(table)
    return found[(found.curriculum == curriculum) & (found.k == found.task_k)]


def waits(rows: DataFrame) -> Series:
    """Steps from learning one number of hops to learning the next, in all runs whose curriculum does not force it."""
    free = rows[rows.curriculum.isin(FREE)].sort_values("k")
    return Series(lags(run.learnt for _, run in free.groupby("run")), dtype=float)


def over_runs(
    name: str,
    sentence: str,
    values: Series,
    what: str,
    rows: DataFrame,
    section: str = TALK,
    source: str = "ours",
    **more: Any,
) -> Claim:
    """A claim about n values; its number is their median."""
    evidence = Evidence(rows, section, source)
    return evidence.claim(name, sentence, values, what, **{"n": len(values), "number": "median", **more})


def alone(rows: DataFrame, sentence: str) -> Claim:
    """The claim that three or more hops are not learnt alone; the sentence has a placeholder for their numbers."""
    hard = rows[rows.task_k >= 3]
    return over_runs(
        "k_hops_alone_stay_at_chance",
        sentence.format(listed(hard.task_k)),
        hard.loss,
        "final loss over ln N",
        rows,
        above=CHANCE,
    )


def in_order(rows: DataFrame, sentence: str, source: str = "ours") -> Claim:
    """The claim that hops are learnt in order if the curriculum does not force it; the sentence counts pairs."""
    between = waits(rows)
    return over_runs(
        "hops_in_order",
        sentence.format(len(between)),
        between,
        "number of steps from one number of hops to the next",
        rows,
        source=source,
        above=0,
    )


def listed(numbers: Series) -> str:
    """The numbers in order, each once: `2, 3, 4`."""
    return ", ".join(str(number) for number in sorted(set(numbers)))
