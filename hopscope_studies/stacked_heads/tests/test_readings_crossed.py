"""Tests of `readings_crossed`: every combination once, no prior, and pairs that are counted by hand."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
from pandas import DataFrame

from hopscope.configuration.presets import recipe
from hopscope.core.intervals import sign_test
from hopscope.experiments.base import declared
from hopscope.experiments.priors import prior_of
from hopscope_studies.stacked_heads.experiments.readings_crossed import CHOICES, claims, compared


def test_every_combination_is_there_once_for_each_d_and_seed_and_none_has_a_prior():
    configs = declared("readings_crossed", "long")
    found = Counter(
        (c.task.n_hops, c.training.seed, c.task.order, c.task.position_base, c.model.init, c.model.positions)
        for c in configs
    )
    assert found == Counter(product((2, 3), (0, 1), *CHOICES.values())) and len(found) == 96
    assert {prior_of(config) for config in configs} == {"none"}
    assert {(c.model.mlp, c.training.steps, c.training.stop_below) for c in configs} == {(False, 4000, 0.1)}


def test_one_of_them_is_the_newcomers_reading_but_for_its_width_and_end():
    default = recipe("gpt2_positions").config()
    same = [
        c
        for c in declared("readings_crossed", "cpu")
        if (c.task, c.model.but(d_model=128)) == (default.task, default.model)
    ]
    assert len(same) == 1


def row(seed: int, order: str, learnt: float, k: int = 1, **other) -> dict:
    about = {"run": f"{seed}{order}{other}", "D": 2, "base": 100.0, "init": "gpt2", "positions": "input", "steps": 4000}
    return about | {"seed": seed, "order": order, "k": k, "learnt": learnt, "prior": "none"} | other


def test_pairs_differ_in_one_choice_and_what_was_censored_is_later_than_what_was_learnt():
    """Seeds 0 to 4: sooner, sooner, one only learnt in the first, later, and a pair in which neither learnt."""
    never = math.nan
    times = {0: (10, 20), 1: (10, 11), 2: (3999, never), 3: (30, 20), 4: (never, never)}
    rows = [
        row(seed, order, when)
        for seed, both in times.items()
        for order, when in zip(CHOICES["order"], both, strict=True)
    ]
    rows.append(row(5, "nearest_first", 10))  # without its pair
    rows.append(row(0, "deepest_first", 1, base=10_000.0))  # nothing to compare it with
    found = compared(DataFrame(rows), "nearest_first_is_sooner", "order", "nearest_first", "deepest_first")
    assert (found.number, found.n) == (0.75, 4) and "(in 3 of 4 pairs)" in found.sentence
    assert found.verdict == "undecided"  # three heads or more in four tosses: 5/16


@pytest.mark.parametrize(("sooner", "later", "verdict"), [(5, 0, "holds"), (0, 5, "fails"), (4, 0, "undecided")])
def test_verdicts_are_those_of_a_sign_test(sooner, later, verdict):
    """Five of five have a one-sided probability of 1/32, four of four 1/16."""
    rows = [row(seed, "nearest_first", 10 if seed < sooner else 30) for seed in range(sooner + later)]
    rows += [row(seed, "deepest_first", 20) for seed in range(sooner + later)]
    assert (
        compared(DataFrame(rows), "nearest_first_is_sooner", "order", "nearest_first", "deepest_first").verdict
        == verdict
    )


def test_sign_test_by_hand():
    assert sign_test(3, 3) == 1 / 8 and sign_test(0, 5) == 1 and sign_test(2, 3) == 1 / 2


def test_a_hop_that_is_learnt_before_the_one_before_it_fails_the_claim():
    def verdict(x1: float, x2: float) -> str:
        rows = [row(0, "nearest_first", x1, 1), row(0, "nearest_first", x2, 2)]
        table = DataFrame(rows).assign(run="one")
        return {claim.id: claim.verdict for claim in claims(table)}["hops_in_order"]

    assert (verdict(10, 20), verdict(20, 10), verdict(10, math.nan)) == ("holds", "fails", "undecided")
    assert verdict(math.nan, 10) == "fails"


def test_nothing_is_judged_before_every_combination_was_run():
    """Five of five pairs agree, but the claim is undecided as long as runs of its scale are missing."""
    rows = [row(seed, order, when) for order, when in zip(CHOICES["order"], (10, 20), strict=True) for seed in range(5)]
    alone = {claim.id: claim.verdict for claim in claims(DataFrame(rows))}
    partial = {claim.id: claim for claim in claims(DataFrame(rows).assign(scale="long"))}
    assert alone["nearest_first_is_sooner"] == "holds"
    assert {claim.verdict for claim in partial.values()} == {"undecided"}
    assert "asked only if runs that are done ≥ 96" in partial["nearest_first_is_sooner"].threshold
