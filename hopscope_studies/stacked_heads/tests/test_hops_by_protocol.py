"""Tests of claims on protocols: for hand-made answers, each claim holds or fails as it should."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from pandas import DataFrame, concat

from hopscope.experiments.work import Finished
from hopscope_studies.stacked_heads.experiments import hops_by_protocol
from hopscope_studies.stacked_heads.experiments.fig2 import Asked
from hopscope_studies.stacked_heads.experiments.hops_by_protocol import FILLED, REPEATED, right

TITLES = {"plain": "log_likelihood", "filled": FILLED, "repeated": REPEATED, "thought": "chain_of_thought"}


def answered(hops: int = 3, formulation: str = "equations", **rightly: Iterable[int]) -> DataFrame:
    """Rows of a model's forty answers to one wording; arguments give, by protocol, the indices that are right."""
    shared = {"run": "r", "seed": 0, "model": "m", "formulation": formulation, "hops": hops, "chance": 0.25, "n": 40}
    return DataFrame(
        {
            **shared,
            "layout": "chat" if way == "thought" else "code",
            "protocol": TITLES[way],
            "correct": len(numbers),
            "right": json.dumps(list(numbers)),
        }
        for way, numbers in rightly.items()
    )


def judged(table: DataFrame) -> dict[str, tuple[str, float]]:
    return {claim.id: (claim.verdict, round(claim.number, 6)) for claim in hops_by_protocol.claims(table)}


def test_a_protocol_that_wins_questions_and_loses_few_lifts():
    """Filler tokens win 9 questions and lose 2 (one-sided p = 67 / 2048 = .033); for repetition it is the reverse."""
    found = judged(answered(plain=range(10), filled=range(2, 19), repeated=range(10)))
    assert found["filler_tokens_lift_m"] == ("holds", 7 / 40)
    assert found["repeated_problem_lift_m"] == ("undecided", 0)  # nothing won, nothing lost
    found = judged(answered(plain=range(2, 19), filled=range(10), repeated=range(2, 18)))
    assert found["filler_tokens_lift_m"] == ("fails", -7 / 40)
    assert found["repeated_problem_lift_m"] == ("undecided", -1 / 40)


def test_questions_are_paired_with_those_of_their_own_seed():
    """Under seed 0 six are won, under seed 1 three and two lost: 9 against 2, though their numbers are the same."""
    first = answered(plain=range(10), filled=range(16), repeated=range(10))
    second = answered(plain=[*range(8), 20, 21], filled=[*range(8), 30, 31, 32], repeated=range(10)).assign(seed=1)
    [claim, *_] = hops_by_protocol.claims(concat([first, second]))
    assert "wins 9 and loses 2" in claim.sentence
    assert (claim.verdict, claim.number, claim.n, claim.seeds) == ("holds", 7 / 80, 80, (0, 1))


def test_accuracies_of_seeds_are_drawn_as_one():
    """10 and 6 of 40 are 16 of 80, with Wilson's interval (.127, .300) by hand."""
    rows = concat([answered(plain=range(10)), answered(plain=range(6)).assign(seed=1)])
    [drawn] = hops_by_protocol.pooled(rows).round(3).to_dict("records")
    assert drawn == {"hops": 3, "correct": 16, "n": 80, "accuracy": 0.2, "low": 0.127, "high": 0.3}


def test_questions_of_one_hop_decide_nothing_about_two():
    found = judged(answered(hops=1, plain=range(10), filled=range(40), repeated=range(40)))
    assert {verdict for verdict, _ in found.values()} == {"undecided"}


def test_guessing_is_each_wordings_own():
    """10 of 40 is a guess where one of four is right, but not where one of sixteen is (Wilson's lower end: 0.142)."""
    guessed = answered(plain=range(10), filled=range(10), repeated=range(10), thought=range(10))
    assert judged(guessed)["three_hops_at_chance_m"] == ("holds", 0)
    assert judged(guessed)["thoughts_help_m"] == ("fails", 0)
    known = guessed.assign(formulation="relatives", hops=4, chance=1 / 16)
    assert judged(known)["three_hops_at_chance_m"] == ("fails", 0.1875)
    assert judged(known)["thoughts_help_m"] == ("holds", 0.1875)


@pytest.mark.parametrize("protocol", [*TITLES.values()])
def test_what_is_right_is_read_from_the_answers_that_were_kept(protocol, tmp_path):
    """The backend `always_1` is right exactly where the answer is 1, under every protocol."""
    layout = "chat" if protocol == "chain_of_thought" else "code"
    work = Asked("known:always_1", "equations", 2, layout=layout, protocol=protocol, count=20)
    done = Finished.of(work, tmp_path / "asked", lambda: False)
    ones = [index for index in range(20) if work.questions.question(0, index).answer == "1"]
    assert right(done) == ones and 0 < len(ones) < 20
    [row] = hops_by_protocol.table([done], "quick").to_dict("records")
    assert (row["correct"], json.loads(row["right"])) == (len(ones), ones)
