"""Sixteen hops: what the runs change in the recipe they start from, hops learnt by hand, and claims that can fail."""

from __future__ import annotations

import pytest
from pandas import DataFrame

from hopscope.runs.further import further
from hopscope_studies.more_hops.experiments import more_hops
from hopscope_studies.more_hops.experiments.sixteen_hops import CHOSEN, claims, config, measured, most, runs


def table(**changes: object) -> DataFrame:
    """Two variants in two seeds, D = 4, with the numbers of hops 1, 2, 4, 5 and 8. Every claim holds."""
    return DataFrame(
        {"run": f"{name}/{seed}", "seed": seed, "prior": "none", "variant": name, "D": 4, "step": step}
        | {"hops": hops, "loops": loops, "accuracy": 0.9 if step and loops > hops else 0.1}
        | (changes if step and loops > hops else {})
        for name in CHOSEN
        for seed in (0, 1)
        for step in (0, 9)
        for hops in (1, 2, 4, 5, 8)
        for loops in (hops, hops + 1)
    )


def test_the_rate_falls_from_the_first_step():
    """Nothing else changes but the stages' length, and with KV shift the heads and the rate."""
    for name in CHOSEN:
        ours, theirs = config(name, 3, "long"), more_hops.config(more_hops.variants("long")[name], 3, "long")
        assert ours.training.decay_steps == ours.training.steps == 6000
        assert ours.task == theirs.task
        other = {"steps": 4000, "decay_steps": 1000, "checkpoints": "250", "lr": theirs.training.lr}
        assert ours.training.but(**other) == theirs.training
        assert ours.model.but(n_heads=2) == theirs.model
    assert config("looped", 3, "long").training.lr == 0.01 and config("looped", 3, "long").model.n_heads == 2


def test_a_run_is_asked_with_enough_loops_and_with_one_too_few():
    [one, _] = runs("quick")
    made = one.model.build(one.task)
    run = type("Untrained", (), {"config": one, "task": one.task, "at": lambda self, step: made})()
    rows = list(measured(run, "quick"))
    asked = [(step, hops, loops) for step in (0, 8) for hops in (1, 2, 3, 4) for loops in (hops, hops + 1)]
    assert [(row["step"], row["hops"], row["loops"]) for row in rows] == asked
    [alone] = further(made, one.task, [3], [4], n=8)
    assert rows[5]["accuracy"] == alone["accuracy"] and {row["variant"] for row in rows} == {"looped"}


def test_hops_count_up_to_the_first_that_is_missed():
    found = table()
    found = found[(found.step > 0) & (found.loops > found.hops) & (found.hops <= 4)]
    assert set(most(found)) == {4}
    missed = found.assign(accuracy=found.accuracy.where(found.hops != 2, 0.5))
    assert set(most(missed)) == {1}


#: By claim, a change with which it fails.
SPOILT = {
    "prior_learns": 0.79,
    "prior_most": 0.79,
    "prior_one_more": 0.4,
    "kv_shift_learns": 0.79,
    "kv_shift_most": 0.79,
    "kv_shift_one_more": 0.4,
    "twice_as_many": 0.4,
}


@pytest.mark.parametrize("id", SPOILT)
def test_claims_hold_and_can_fail(id):
    verdicts = lambda found: {one.id: one.verdict for one in claims(found)}  # noqa: E731
    assert set(verdicts(table()).values()) == {"holds"} and verdicts(table(accuracy=SPOILT[id]))[id] == "fails"


def test_controls_that_answer_fail():
    found = table()
    answered = found.assign(accuracy=0.9)
    verdicts = {one.id: one.verdict for one in claims(answered)}
    assert verdicts["one_loop_less"] == verdicts["untrained"] == "fails"
