"""Repeated data: measurements of models with known numbers, sizes by loss, and both sides of every claim."""

from __future__ import annotations

import math

import pandas
import pytest
import torch

from hopscope.experiments.results import claim_ids
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.composition.tests.by_hand import by_hand
from hopscope_studies.repeated_data.claims import claims, shares_of_size
from hopscope_studies.repeated_data.experiments.repeated_data import cell, copying, figure, known_error


class Foreknowing(torch.nn.Module):
    """Predicts the next token of every sequence, or the one after the next."""

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


def test_weights_by_hand_copy_with_a_head_at_lag_one_and_know_no_segment():
    batch = RepeatedSegment().sample(200, 0)
    found = copying(by_hand(RepeatedSegment()), batch)
    assert found["error"] < 0.03 and found["lag"] == 1 and found["induction"] > 0.95
    assert known_error(by_hand(RepeatedSegment()), batch) > 0.8


def test_models_differ_in_what_is_repeated_alone():
    whole, alone, mixed = cell(0, "cpu"), cell(0, "cpu", alone=True), cell(0, "cpu", pool=64)
    assert alone.training.batch * 2 == whole.training.batch == mixed.training.batch
    assert (mixed.task.pool, mixed.task.pool_share) == (64, 0.5)
    assert whole.model == alone.model == mixed.model
    assert cell(0, "cpu", width=16).model == whole.model.but(d_model=16)


def test_the_paper_repeats_a_tenth_of_the_tokens():
    alone, mixed = cell(0, "paper", alone=True), cell(0, "paper", pool=8)
    assert mixed.task.pool_share == 0.1 and alone.training.batch == 45 and mixed.training.batch == 50


def test_sizes_are_told_by_loss():
    rungs = pandas.Series({1000: 1.0, 2000: 0.5, 4000: 0.0})
    losses = pandas.Series([0.0, 0.5, 0.25, -1.0, 3.0])
    assert shares_of_size(losses, rungs) == pytest.approx([1, 0.5, math.sqrt(0.5), 1, 0.25])


def made(bad: bool) -> pandas.DataFrame:
    """A table in which every claim holds, or one in which every claim fails; only the time's looks at step 1000."""
    rows = []
    for seed in range(5):
        for pool, alone, width, loss, induction, known in (
            (0, False, 32, 0.1, 0.9, 0.95),
            (0, False, 16, 0.8, 0.5, 0.95),
            (0, True, 32, 0.2, 0.8, 0.95),
            (8, False, 32, 0.3, 0.8, 0.3),
            (64, False, 32, 0.9, 0.4, 0.6),
            (512, False, 32, 0.2, 0.9, 0.9),
        ):
            if bad and pool == 8:
                loss, induction, known = 0.95, 0.4, 0.95
            if bad and not pool:
                loss, induction = 2.0 + (width < 32), 0.3
            about = {"run": f"{pool}{alone}{width}{seed}", "version": "", "seed": seed, "pool": pool, "alone": alone}
            size = {"width": width, "parameters": width * 100, "untrained_error": 0.5 if bad else 0.98}
            measured = {"loss": loss, "error": 0.8 * loss, "induction": induction, "lag": 1}
            row = {**about, **size, **measured, "known_error": known, "fresh_known_error": 0.95}
            rows += [row | {"step": 1000, "induction": 0.9 if bad else 0.2}, row | {"step": 2000}]
    return pandas.DataFrame(rows)


@pytest.mark.parametrize(("bad", "verdict"), [(False, "holds"), (True, "fails")])
def test_claims_hold_of_what_bears_them_out_and_fail_of_what_does_not(bad, verdict):
    found = {claim.id: claim.verdict for claim in claims(made(bad))}
    assert found == dict.fromkeys(claim_ids("repeated_data"), verdict)


@pytest.mark.parametrize(("seeds", "verdict"), [(5, "holds"), (4, "undecided")])
def test_seeds_that_hardly_differ_are_not_counted(seeds, verdict):
    """Of five seeds five must be hurt clearly: four of four have a probability of 1/16."""
    table = made(bad=False)
    worst = (table.pool == 64) & (table.seed >= seeds)
    table.loc[worst, "loss"] = 0.15
    found = {claim.id: claim for claim in claims(table)}["repetition_hurts"]
    assert found.verdict == verdict and found.n == 5
    assert f"({seeds}) than below" in found.threshold


def test_a_table_of_which_only_the_first_run_is_finished_is_judged_and_drawn():
    """As at scale `long`, where results are written run by run."""
    table = made(bad=False).assign(repetitions=1.0)
    first = table[table.run == table.run[0]]
    assert "undecided" in {claim.verdict for claim in claims(first)}
    figure(first).canvas.draw()
