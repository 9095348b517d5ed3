"""Repeated data: errors in the first copy of scripted models, the pools' share, both sides of every claim."""

from __future__ import annotations

import pandas
import pytest
import torch

from hopscope.studies.repeated_data.claims import claims
from hopscope.studies.repeated_data.experiments import repeated_data
from hopscope.studies.repeated_data.experiments.repeated_data import cell, known_error
from hopscope.tasks.repeated_segment import RepeatedSegment


class Foreknowing(torch.nn.Module):
    """Names the next token of every sequence, or the one after the next."""

    def __init__(self, shift: int):
        super().__init__()
        self.shift = shift

    def forward(self, inputs, at=None):
        named = inputs.roll(-self.shift, 1)[:, at]
        return torch.nn.functional.one_hot(named, 64).float()


def test_errors_in_the_first_copy():
    batch = RepeatedSegment().sample(200, 0)
    assert known_error(Foreknowing(1), batch) == 0
    assert known_error(Foreknowing(2), batch) > 0.8


def test_models_differ_in_what_is_repeated_alone():
    whole, half, mixed = cell(0, "cpu"), cell(0, "cpu", half=True), cell(0, "cpu", pool=64)
    assert half.training.batch * 2 == whole.training.batch == mixed.training.batch
    assert (mixed.task.pool, mixed.task.pool_share) == (64, 0.5)
    assert whole.model == half.model == mixed.model


def made(bad: bool) -> pandas.DataFrame:
    """A table that bears every claim out; or one that contradicts each."""
    rows = []
    for seed in range(5):
        for pool, half, loss, induction, known in (
            (0, False, 0.1, 0.9, 0.95),
            (0, True, 0.2, 0.8, 0.95),
            (8, False, 0.3, 0.8, 0.3),
            (64, False, 0.9, 0.4, 0.6),
            (512, False, 0.2, 0.9, 0.9),
        ):
            if bad and pool == 8:
                loss, induction, known = 0.95, 0.4, 0.95
            if bad and not pool:
                loss, induction = 2.0, 0.3
            about = {"run": f"{pool}{half}{seed}", "version": "", "seed": seed, "pool": pool, "half": half}
            measured = {"loss": loss, "error": loss / 5, "induction": induction, "lag": 1}
            rows.append({**about, **measured, "known_error": known, "fresh_known_error": 0.95})
    return pandas.DataFrame(rows)


@pytest.mark.parametrize(("bad", "verdict"), [(False, "holds"), (True, "fails")])
def test_claims_hold_of_what_bears_them_out_and_fail_of_what_does_not(bad, verdict):
    found = {claim.id: claim.verdict for claim in claims(made(bad))}
    assert found == dict.fromkeys(repeated_data.CLAIMS, verdict)
