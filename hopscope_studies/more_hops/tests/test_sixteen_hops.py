"""Sixteen hops: what the runs change in the recipe they start from, hops learnt by hand, and claims that can fail."""

from __future__ import annotations

import math

import pytest
import torch
from pandas import DataFrame, concat

from hopscope.core.seeds import generator
from hopscope.runs.further import further
from hopscope_studies.more_hops.experiments import more_hops
from hopscope_studies.more_hops.experiments.sixteen_hops import (
    CHOSEN,
    FREE,
    claims,
    config,
    loss_of,
    measured,
    most,
    runs,
)


def table(**changes: object) -> DataFrame:
    """Every variant in two seeds, D = 4, with the numbers of hops 1, 2, 4, 5 and 8, and curves. Every claim holds."""
    return concat([curves(), asked(**changes)])


def curves(*losses: float, low: float = 0.9) -> DataFrame:
    """Losses of one to four hops at steps 4, 8 and 9: four hops are not solved. Accuracies fall to `low` at step 8."""
    return DataFrame(
        {"run": f"{name}/{seed}", "seed": seed, "prior": "none", "variant": name, "D": 4, "step": step, "hops": hops}
        | {"loops": hops + 1, "accuracy": low if step == 8 else 0.9, "loss": 0.05 if hops < 4 else loss}
        for name in CHOSEN
        for seed in (0, 1)
        for step, loss in zip((4, 8, 9), losses or (0.9, 0.6, 0.3), strict=True)
        for hops in (1, 2, 3, 4)
    )


def asked(**changes: object) -> DataFrame:
    """Accuracies at the first step and the last."""
    return DataFrame(
        {"run": f"{name}/{seed}", "seed": seed, "prior": "none", "variant": name, "D": 4, "step": step}
        | {"hops": hops, "loops": loops, "accuracy": 0.9 if step and loops > hops else 0.1}
        | {"loss": math.nan}
        | (changes if step and loops > hops else {})
        for name in CHOSEN
        for seed in (0, 1)
        for step in (0, 9)
        for hops in (1, 2, 4, 5, 8)
        for loops in (hops, hops + 1)
    )


def test_the_rate_falls_from_the_first_step():
    """Nothing else changes but the stages' length, with KV shift heads and rate, and without a prior the model."""
    for name in CHOSEN:
        base = more_hops.variants("long")["looped" if name in FREE else name]
        ours, theirs = config(name, 3, "long"), more_hops.config(base, 3, "long")
        assert ours.training.decay_steps == ours.training.steps == 6000
        assert ours.task == theirs.task
        other = {"steps": 4000, "decay_steps": 1000, "checkpoints": "250", "lr": theirs.training.lr}
        assert ours.training.but(**other) == theirs.training
        assert ours.model.but(n_heads=2) == theirs.model.but(**FREE.get(name, {}))
    assert config("looped", 3, "long").training.lr == 0.01 and config("looped", 3, "long").model.n_heads == 2


def test_a_run_is_asked_with_enough_loops_and_with_one_too_few():
    one, *_ = runs("quick")
    made = one.model.build(one.task)
    run = type("Untrained", (), {"config": one, "task": one.task, "steps": [0, 4, 8], "at": lambda self, step: made})()
    rows, curve = (found := list(measured(run, "quick")))[:16], found[16:]
    asked = [(step, hops, loops) for step in (0, 8) for hops in (1, 2, 3, 4) for loops in (hops, hops + 1)]
    assert [(row["step"], row["hops"], row["loops"]) for row in rows] == asked
    [alone] = further(made, one.task, [3], [4], n=8)
    assert rows[5]["accuracy"] == alone["accuracy"] and {row["variant"] for row in found} == {"looped"}
    asked = [(step, hops, hops + 1, 2 + 6 * (step == 8)) for step in (0, 4, 8) for hops in (1, 2)]
    assert [(row["step"], row["hops"], row["loops"], row["n"]) for row in curve] == asked


def test_the_loss_is_of_the_answers_that_further_judges():
    """The mean squared error of all numbers of all answers."""
    made = config("looped", 0, "quick")
    model, posed = made.model.build(made.task), made.task.at(3)
    model.initialise(torch.Generator().manual_seed(0))
    found = loss_of(model, posed, 16)
    batch = posed.sample(16, generator(0, "further", 3))
    outputs = model.looped(4, n_positions=posed.n_positions)(batch.inputs, at=posed.query_positions)
    assert found == pytest.approx(float((outputs - batch.targets).square().mean().detach()))


def test_hops_count_up_to_the_first_that_is_missed():
    found = asked()
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
    "rotary_learns": 0.79,
    "rotary_most": 0.79,
    "rotary_one_more": 0.4,
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


def test_claims_on_curves_fail_by_their_own_values():
    verdicts = lambda some: {one.id: one.verdict for one in claims(concat([some, asked()]))}  # noqa: E731
    failing = {
        "solved": curves().assign(loss=lambda rows: rows.loss.where(rows.hops != 2, 0.2)),
        "kept": curves(low=0.7),
        "unfinished": curves(0.9, 0.6, 0.58),
    }
    for id, some in failing.items():
        assert {one for one, verdict in verdicts(some).items() if verdict == "fails"} == {id}
    assert verdicts(curves(0.9, 0.2, 0.05))["unfinished"] == "undecided"
