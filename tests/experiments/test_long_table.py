"""Tables with one number a row: times that never came, ratios by seed, and a run's course against its own rows."""

from __future__ import annotations

import math

import pytest
from pandas import DataFrame

from hopscope import train
from hopscope.experiments.curves import crossing
from hopscope.experiments.long_table import courses_of, entry, learnt, values
from hopscope.experiments.values import ratios
from tests.small_runs import config

NAN = float("nan")


def table(**times: list[float]) -> DataFrame:
    return DataFrame(
        entry({"run": f"{name}.{seed}", "seed": seed, "condition": name}, "learnt", "all", step, 100)
        for name, steps in times.items()
        for seed, step in enumerate(steps)
    )


def test_what_never_was_is_later_than_anything():
    found = table(one=[10.0, NAN], other=[20.0, 40.0])
    one, other = learnt(found, "one"), learnt(found, "other")
    assert one.to_dict() == {0: 10.0, 1: math.inf}
    assert ratios(one, other).to_dict() == {0: 0.5, 1: math.inf}
    assert ratios(other, one).to_dict() == {0: 2.0, 1: 0.0}
    assert ratios(one[1:], one[1:]).isna().all()


def test_seeds_that_only_one_condition_has_are_left_out():
    found = table(one=[10.0], other=[20.0, 40.0])
    assert ratios(learnt(found, "one"), learnt(found, "other")).to_dict() == {0: 0.5}


def test_a_course_is_the_runs_own_rows(tmp_path):
    run = train(config(steps=6, log_every=2, measures="induction_score"), tmp_path / "run", threads=1, compile="off")
    found = courses_of([run], lambda _: "small", lambda measures: {"best": max(measures["induction_score"].values())})
    losses = values(found, "small", "loss")
    assert losses.step.tolist() == [row["step"] for row in run.rows]
    assert losses.value.tolist() == pytest.approx([row["val_loss"] for row in run.rows])
    assert values(found, "small", "seen", "best").value.between(0, 1).all()
    time = crossing(losses.step.tolist(), losses.value.tolist(), run.task.learnt_below)
    assert learnt(found, "small").to_dict() == {run.config.training.seed: math.inf if math.isnan(time) else time}
    assert entry({}, "toy", "none", None)["value"] != entry({}, "toy", "none", None)["value"]  # None is NaN
