"""Tests of `multi_query`: depths by theory, accuracies from reports, and claims that hold and fail."""

from __future__ import annotations

import pytest
from pandas import DataFrame

from hopscope.theory import depth, shifted
from hopscope_studies.mixers.experiments import mixers
from hopscope_studies.mixers.experiments.mixers import BARE, CONVOLVED, RATES, WITHOUT
from hopscope_studies.mixers.experiments.multi_query import TASK, claims, runs

#: Number of rates at which each mixer recalls, in the table on which every claim holds.
WIDTHS = dict.fromkeys((*WITHOUT, *BARE), 0) | dict(zip(CONVOLVED, (2, 3), strict=True))


def table(**changes: int) -> DataFrame:
    """A table of two seeds, in which each mixer recalls at the first few rates."""
    widths = WIDTHS | {name.replace("_bare", "(convolution=0)"): width for name, width in changes.items()}
    return DataFrame(
        {"run": f"{mixer}/{rate}/{seed}", "seed": seed, "prior": "none", "mixer": mixer, "rate": rate, "k": 1}
        | {"loss": 0.5, "accuracy": 0.8 if RATES.index(rate) < widths[mixer] else 0.1}
        for mixer in widths
        for rate in RATES
        for seed in range(2)
    )


def test_one_layer_is_too_shallow_without_shifted_keys_and_enough_with_them():
    args = (TASK.n_hops, "causal", "many", TASK.order)
    assert depth.minimum_depth(*args).min_layers == 2 and shifted.minimum_depth(*args) == 1


def test_every_key_is_asked_once_and_runs_are_those_of_mixers_with_one_layer():
    batch = TASK.sample(8, 0)
    asked, keys = batch.inputs[:, TASK.query_positions, :16], batch.inputs[:, : TASK.n_positions - 16 : 2, :16]
    for some, own in zip(asked.tolist(), keys.tolist(), strict=True):
        assert len(some) == len(own) == 16 and sorted(some) == sorted(own)
    pairs = list(zip(runs("cpu"), mixers.runs("cpu"), strict=True))
    assert (
        len(pairs) == 120
        and {one.model.n_layers for one, _ in pairs} == {1}
        and {one.task for one, _ in pairs} == {TASK}
    )
    assert all(one.model.but(n_layers=2) == other.model for one, other in pairs)
    assert all(one.training.lr == other.training.lr for one, other in pairs)


def test_rates_are_counted_seed_by_seed():
    made = table()
    made.loc[(made.mixer == "state_space") & (made.seed == 1) & (made.rate == RATES[0]), "accuracy"] = 0.79
    found = {claim.id: claim for claim in claims(made)}
    assert found["state_space"].spread == (1, 2) and found["state_space"].n == 2


@pytest.mark.parametrize(
    ("names", "change"),
    [
        ({"state_space"}, {"state_space": 0}),
        ({"delta_rule"}, {"delta_rule": 0}),
        ({"narrow"}, {"state_space": 3}),
        ({"bare_delta_rule"}, {"delta_rule_bare": 1}),
        ({"cannot"}, {"softmax": 1}),
        ({"cannot"}, {"state_space_bare": 1}),
    ],
)
def test_each_claim_holds_and_fails_by_its_own_values(names, change):
    assert {claim.verdict for claim in claims(table())} == {"holds"}
    assert {claim.id for claim in claims(table(**change)) if claim.verdict == "fails"} == names
