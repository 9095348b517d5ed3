"""Claims on InductionBench: on tables made by hand each holds, and fails where it should; the sign test by hand."""

from __future__ import annotations

import io
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.core.intervals import sign_test
from hopscope.experiments.results import claim_ids
from hopscope.language.backends.known import Known
from hopscope.language.benchmarks.base_local_functions import as_text, learned
from hopscope.language.benchmarks.induction_bench import InductionBench
from hopscope.language.controlled import controlled
from hopscope.language.evaluation import Evaluation
from hopscope.language.layouts.chat import Chat
from hopscope_studies.induction_bench.experiments import induction_bench, induction_bench_osl
from hopscope_studies.induction_bench.figure import figure
from hopscope_studies.induction_bench.measured import Learned

SMALL, LARGE = "(2, 3, 2)", "(2, 5, 3)"


def row(part: str, labels: str, measure: str, value: float, **more: Any) -> dict[str, Any]:
    low, high = more.pop("ends", (max(0.0, value - 0.05), min(1.0, value + 0.05)))
    told = {"run": part, "version": "v", "seed": 0, "part": part, "model": "m", "size": SMALL, "layout": "chat"}
    return {
        **told,
        "labels": labels,
        "protocol": "greedy_lenient",
        "measure": measure,
        "n": 100,
        "value": value,
        "low": low,
        "high": high,
        "chance": None,
        **more,
    }


def table(
    exact: float = 1.0,
    unseen: float = 1.0,
    half: float = 0.3,
    oracle: float = 1.0,
    guess: float = 0.07,
    compatible: float = 0.0,
    more: tuple[float, float] = (0.001, 0.999),
    form: tuple[float, float] = (0.0, 0.9),
) -> DataFrame:
    """Everything as claimed, unless said otherwise; `more` are the sign test's two probabilities."""
    beyond = {"ends": more, "chance": 0.0}
    rows = [
        *(row("learner", "true", name, exact) for name in ("recall", "precision", "compatibility", "exact")),
        row("learner", "true", "unseen strings", unseen),
        row("learner", "half", "recall", half),
        row("scripted", "true", "recall", oracle, model="known:oracle"),
        row("scripted", "true", "recall", guess, model="known:uniform", chance=0.0740741),
        row("language", "true", "compatibility", compatible, size=LARGE),
        row("language", "true beyond shuffled", "recall", 0.1, **beyond),
        row("language", "true beyond shuffled", "recall", 0.1, layout="few_shot", **beyond),
        row("language", "true beyond shuffled", "choice", 0.1, layout="few_shot", protocol="log_likelihood", **beyond),
        row("language", "true", "valid", form[0], protocol="greedy_strict"),
        row("language", "true", "valid", form[1], protocol="greedy_strict", layout="few_shot"),
        *(row("language", labels, "recall", 0.1, chance=0.07) for labels in ("true", "shuffled")),
        *(row("language", labels, "choice", 0.3, protocol="log_likelihood") for labels in ("true", "shuffled")),
    ]
    return pandas.read_csv(io.StringIO(DataFrame(rows).to_csv(index=False)))


def verdicts(**changes: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in induction_bench.claims(table(**changes))}


def test_each_holds_where_all_is_as_claimed():
    assert list(verdicts()) == claim_ids("induction_bench")
    assert set(verdicts().values()) == {"holds"}


TESTED = {"recall_beyond_shuffled", "recall_beyond_shuffled_after_examples", "chooses_beyond_shuffled"}


@pytest.mark.parametrize(
    ("changes", "fail"),
    [
        ({"exact": 0.99}, {"learner_exact"}),
        ({"unseen": 0.99}, {"learner_right_on_unseen_strings"}),
        ({"half": 0.97}, {"half_the_examples_are_too_few"}),  # its interval reaches 1
        ({"oracle": 0.99}, {"whoever_knows_scores_one"}),
        ({"guess": 0.2}, {"guessing_scores_chance"}),
        ({"compatible": 0.16}, {"compatibility_near_zero"}),
        ({"more": (0.999, 0.001)}, TESTED),
        ({"form": (0.0, 0.3)}, {"form_needs_examples"}),
        ({"form": (0.7, 0.9)}, {"form_needs_examples"}),
    ],
)
def test_each_fails_alone_where_it_should(changes, fail):
    found = verdicts(**changes)
    assert {id for id, verdict in found.items() if verdict == "fails"} == fail
    assert {verdict for id, verdict in found.items() if id not in fail} == {"holds"}


def test_what_chance_could_do_is_undecided():
    found = verdicts(more=(0.3, 0.8))
    assert {id for id, verdict in found.items() if verdict == "undecided"} == TESTED
    for form in ((0.0, 0.52), (0.47, 0.9)):
        found = verdicts(form=form)
        assert {id for id, verdict in found.items() if verdict == "undecided"} == {"form_needs_examples"}


OSL = ("L-OSL (2, 3, 2)", "R-OSL (2, 3, 2)", "L-OSL (3, 3, 2)")


def osl_table(**changes: Any) -> DataFrame:
    """The same for output strictly local functions, of which nothing was asked in chat, and no choice."""
    every = table(**changes)
    asked = every[(every.part != "language") | ((every.layout == "few_shot") & (every.measure != "choice"))]
    beyond = asked[asked.labels == "true beyond shuffled"]
    whole = every[(every.part == "language") & (every.measure == "compatibility")]
    parts = [asked.assign(size=OSL[0]), beyond.assign(size=OSL[1]), whole.assign(size=OSL[2], layout="few_shot")]
    return pandas.concat(parts, ignore_index=True)


def test_what_was_not_asked_is_not_judged():
    judged = {claim.id: claim.verdict for claim in induction_bench_osl.claims(osl_table())}
    assert list(judged) == claim_ids("induction_bench_osl")
    assert set(judged.values()) == {"holds"}
    assert set(verdicts()) - set(judged) == {"recall_beyond_shuffled", "chooses_beyond_shuffled", "form_needs_examples"}
    failed = [claim.id for claim in induction_bench_osl.claims(osl_table(compatible=0.16)) if claim.verdict == "fails"]
    assert failed == ["compatibility_near_zero"]


def test_both_classes_have_to_be_beyond_shuffled_examples():
    found = osl_table()
    found.loc[(found["size"] == OSL[1]) & (found.labels == "true beyond shuffled"), ["low", "high"]] = 0.3, 0.8
    judged = {claim.id: claim.verdict for claim in induction_bench_osl.claims(found)}
    assert judged["recall_beyond_shuffled_after_examples"] == "undecided"


def test_the_sign_test_by_hand():
    assert sign_test(0, 0) == sign_test(0, 5) == 1
    assert sign_test(5, 5) == 1 / 32
    assert sign_test(4, 5) == 6 / 32


class Reader(Known):
    """Learns from what it is shown, and knows nothing else."""

    def answer(self, text: str, seed: int) -> str:
        pairs = [line.split(" = ") for line in text.split("\n") if line.startswith("f(")]
        return as_text(learned({left[2:-1]: right for left, right in pairs}, 2)) or "none"


def test_a_model_that_reads_the_examples_is_told_from_one_that_does_not(tmp_path):
    """One that knows the rules whatever it is shown has nothing from the examples."""
    reads, knows = (
        controlled(model, InductionBench(2, 3, 2), Chat(), "greedy_strict", Evaluation(12), tmp_path / model.behaviour)
        for model in (Reader("uniform"), Known("oracle"))
    )
    for found, is_reader in ((reads, True), (knows, False)):
        assert {one["value"] for one in found if one["labels"] == "true"} == {1.0}
        (beyond,) = (one for one in found if one["labels"] == "true beyond shuffled")
        assert (beyond["value"] > 0.5 and beyond["low"] < 0.001) == is_reader
        assert is_reader or (beyond["value"], beyond["low"], beyond["high"]) == (0, 1, 1)


def test_learner_rows_are_shares_with_intervals():
    work = Learned(count=6)
    rows = list(work.scored([work.function(index) for index in range(6)], "true", False))
    assert [one["value"] for one in rows] == [1.0] * 5
    assert rows[0]["chance"] == 3 / 125 and rows[-1]["n"] == 60


def test_the_figure_shows_learner_measures_and_choice():
    titles = [ax.get_title("left") for ax in figure(table()).axes]
    assert titles == ["An exact learner", "m: rules in the answer", "One set of rules of four, (2, 3, 2)"]
    titles = [ax.get_title("left") for ax in figure(table()[lambda rows: rows.measure != "choice"]).axes]
    assert titles == ["An exact learner", "m: rules in the answer"]
