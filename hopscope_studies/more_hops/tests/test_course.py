"""The course of training: fronts by hand, one pass that reads every hop, and claims on tables made for them."""

from __future__ import annotations

import pytest
import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope_studies.more_hops.experiments.course import VARIANTS, at, claims, config, front, on_longest


def table(**changes: object) -> DataFrame:
    """Two variants in two seeds, at steps 0 to 16; the learning rate is constant to step 12. Every claim holds."""
    shares = {0: (0.1, 0.1), 6: (0.95, 0.9), 12: (0.95, 0.6), 16: (0.95, 0.9)}  # one and two hops
    six = {0: 0.1, 6: 0.1, 12: 0.1, 16: 0.6}
    return DataFrame(
        {"run": f"{variant}/{seed}", "seed": seed, "prior": "none", "variant": variant, "steps": 16, "step": step}
        | {"hops": hops, "accuracy": accuracy, "longest": accuracy / 2, "loss": 0.5}
        | changes
        for variant in VARIANTS
        for seed in (0, 1)
        for step, pair in shares.items()
        for hops, accuracy in zip((1, 2, 6), (*pair, six[step]), strict=True)
    )


def test_fronts_by_hand():
    """Six hops do not count where two are missed."""
    found = table()
    assert [set(front(found, part)) for part in (0, 6 / 16, 0.75, 1)] == [{0}, {2}, {1}, {2}]
    assert set(at(found, 0.5).step) == {6}
    missed = found.assign(accuracy=found.accuracy.where(found.hops != 6, 0.9))
    assert set(front(missed, 0.75)) == {1} and set(front(missed, 1)) == {6}


def test_one_pass_reads_each_hop_after_one_loop_more():
    """Against the model run anew for every hop, with the task's own verdict."""
    made = config(VARIANTS["looped"], 0, "quick")
    task = made.task.at(3)
    model = made.model.build(made.task)
    model.initialise(torch.Generator().manual_seed(0))
    posed = task.but(curriculum="implicit")
    batch = posed.sample(64, generator(0, "course"))
    found = on_longest(model, task, 64)
    for hop, right in enumerate(posed.asked(batch.draw).unbind(-1), 1):
        outputs = model.looped(hop + 1, n_positions=posed.n_positions)(batch.inputs, at=posed.query_positions)
        nearest = torch.cdist(outputs, posed.candidates(batch.draw)).argmin(-1)
        assert found[hop - 1] == pytest.approx(float((nearest == right).float().mean()))


#: By claim, a change with which it fails.
SPOILT = {
    "falling_rate": {"accuracy": 0.5},
    "falls_back": {"accuracy": 0.9},
    "bounded": {"loss": 2.0},
    "long_chains": {"longest": 1.0},
    "untrained": {"accuracy": 0.9},
}


@pytest.mark.parametrize("id", SPOILT)
def test_claims_hold_and_can_fail(id):
    verdicts = lambda found: {one.id: one.verdict for one in claims(found)}  # noqa: E731
    assert set(verdicts(table()).values()) == {"holds"} and verdicts(table(**SPOILT[id]))[id] == "fails"


def test_what_is_lost_or_gained_at_the_wrong_time_is_told():
    found = table()
    lost = found.assign(accuracy=found.accuracy.where(found.step < 16, 0.2))
    gained = found.assign(accuracy=found.accuracy.where((found.step < 12) | (found.hops > 2), 1.0))
    gained = gained.assign(accuracy=gained.accuracy.where(gained.step != 6, 0.1))
    verdicts = [{one.id: one.verdict for one in claims(some)} for some in (lost, gained)]
    assert verdicts[0]["kept"] == verdicts[1]["stops"] == "fails"
