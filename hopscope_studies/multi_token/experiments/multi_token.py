"""Several tokens ahead, and several hops ahead: does asking for more build induction heads sooner, and why?

After Gloeckle et al. (2024, arXiv:2404.19737, section 2 on the model, section 4 on induction), on texts with names. The
same question is ours for the hops of the retrieval problem, where asking for more is the implicit curriculum (Musat,
ICLR 2025, section 7). In both problems the near answer is asked, the far one, or both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, concat

from hopscope.configuration.config import Config
from hopscope.experiments.circuit_tables import circuit_numbers, circuit_of
from hopscope.experiments.curves import crossing
from hopscope.experiments.long_table import entry
from hopscope.experiments.tables import rows_by_hand, rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.runs.run import Run
from hopscope_studies.multi_token.by_hand import by_hand
from hopscope_studies.multi_token.cells import CHOSEN, cells
from hopscope_studies.multi_token.claims import claims as claims
from hopscope_studies.multi_token.figure import figure as figure
from hopscope_studies.multi_token.scores import accuracies, guessed, without_trunk
from hopscope_studies.multi_token.tasks.names_in_text import NamesInText
from hopscope_studies.multi_token.work import OneHead

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 610, "paper": 300_000}
#: Hand-set and trained models share one table.
COMPARES_RUNS = True
ENOUGH = 0.5  # accuracy at names from which they count as learnt (after section 4's figures; ours)
CIRCUITS = {"quick": 0, "cpu": 3, "paper": 3}  # number of seeds in which circuits are searched for
SEARCHED = (("tokens", "near"), ("tokens", "both"), ("hops", "both"))
IDENTITIES = {"quick": OneHead(1, 2, 8), "cpu": OneHead(), "paper": OneHead(8, 20, 64)}


def runs(scale: str) -> Iterator[Config | Work]:
    """The test of identity, and every model."""
    yield IDENTITIES[scale]
    for _, config in cells(scale):
        yield config


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """Rows of several kinds, each with run, version, seed, kind, problem, asked, note, and mostly name and value.

    `learnt`: the step at which a token's accuracy at names passed one half, or a hop's loss its threshold (NaN: never),
    by name (`t+1`, `x2` …). `curve`: that accuracy or loss, at step. `attention`: of the best head, at step. `end`, at
    the last step and, under `start`, at the first: accuracies on fresh texts; `without`: the same with the trunk's
    attention even. `size`: number of parameters. `circuit`: verdict and paths. `identity`: difference of weights.
    """
    named = {config.identity: name for name, config in cells(scale)}
    found = rows_of(runs, lambda run: measured(run, *named[run.config.identity], scale))
    made = rows_by_hand(hand_rows(), problem="tokens", asked="by hand", note="")
    return concat([made, found], ignore_index=True).round({"value": 6})


def measured(run: Run, problem: str, asked: str, note: str, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on one model; for the first seeds of some also on its circuit: verdict (1: accepted), paths and losses."""
    about = {"problem": problem, "asked": asked, "note": note}
    yield from (about | row for row in (hop_rows(run) if problem == "hops" else token_rows(run, scale)))
    if run.config.training.seed < CIRCUITS[scale] and (problem, asked) in SEARCHED:
        found = circuit_numbers(run, scale)
        verdict = {"kind": "circuit", "name": circuit_of(run, scale).verdict, "value": found.pop("accepted")}
        yield {**about, **verdict, **found}


def hand_rows() -> Iterator[dict[str, Any]]:
    """Rows on the hand-set model's accuracy on the chosen task, on that of a guess, and on the best possible."""
    task = NamesInText(n_names=CHOSEN[0], stray=CHOSEN[1])
    yield entry({}, "end", "t+1", accuracies(by_hand(task), task, "cpu")["t+1"])
    yield entry({}, "floor", "t+1", guessed(task))
    yield entry({}, "best", "t+1", task.best_accuracy)


def token_rows(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on a model of texts: when names were learnt, its course, start and end, and its end without the trunk."""
    task, model = run.task, run.model
    assert isinstance(task, NamesInText)
    steps = [row["step"] for row in run.rows]
    for name in run.rows[0]["measures"]["name_accuracy"]:
        course = [row["measures"]["name_accuracy"][name] for row in run.rows]
        yield entry({}, "learnt", name, crossing(steps, [-right for right in course], -ENOUGH), steps[-1])
        for step, right in zip(steps, course, strict=True):
            yield entry({}, "curve", name, right, step)
    for row in run.rows:
        own = [value for head, value in row["measures"]["name_attention"].items() if answers_first(head, run)]
        yield entry({}, "attention", "best", max(own), row["step"])
    for kind, found in (("end", model), ("start", run.at(0))):
        for name, right in accuracies(found, task, scale).items():
            yield entry({}, kind, name, right, steps[-1] if kind == "end" else 0)
    for name, right in without_trunk(model, task, scale).items():
        yield entry({}, "without", name, right, steps[-1])
    yield entry({}, "size", "parameters", float(model.n_parameters))


def answers_first(head: str, run: Run) -> bool:
    """Whether the first output can depend on a head, such as `L1H0`; heads of the trunk and of the first output can."""
    return int(head[1:].partition("H")[0]) <= run.config.as_dict()["model"]["n_layers"] - len(run.task.hop_names)


def hop_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Rows on a model of chains: when its hops were learnt, and its course."""
    steps = [row["step"] for row in run.rows]
    for hop in run.task.hop_names:
        losses = [row["hop_losses"][hop] for row in run.rows]
        yield entry({}, "learnt", hop, crossing(steps, losses, run.task.learnt_below), steps[-1])
        for step, loss in zip(steps, losses, strict=True):
            yield entry({}, "curve", hop, loss, step)
    yield entry({}, "size", "parameters", float(run.model.n_parameters))
