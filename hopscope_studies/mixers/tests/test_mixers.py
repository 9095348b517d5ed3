"""Tests of `mixers`: windows by hand, and each claim on tables for which it holds and for which it fails."""

from __future__ import annotations

import pytest
from pandas import DataFrame

from hopscope.theory import depth, shifted
from hopscope_studies.mixers.experiments.mixers import (
    BARE,
    CONVOLVED,
    RATES,
    SHAPE,
    TASK,
    WITHOUT,
    claims,
    runs,
    windows,
)

#: Rates at which each mixer learns hop 1 and hop 2, in the table on which every claim holds.
WIDTHS = {
    "softmax": (3, 0),
    "linear": (1, 0),
    BARE[0]: (0, 0),
    BARE[1]: (1, 0),
    "state_space": (2, 1),
    "delta_rule": (4, 2),
}


def table(**changes: tuple[int, int]) -> DataFrame:
    """A table of three seeds, in which each mixer learns a hop at the first few rates."""
    widths = WIDTHS | {name.replace("_bare", "(convolution=0)"): width for name, width in changes.items()}
    return DataFrame(
        {"run": f"{mixer}/{rate}/{seed}", "seed": seed, "prior": "none", "mixer": mixer, "rate": rate, "k": k}
        | {"loss": 0.02 if RATES.index(rate) < widths[mixer][k - 1] else 0.75}
        for mixer in widths
        for rate in RATES
        for seed in range(3)
        for k in (1, 2)
    )


def test_windows_count_rates_seed_by_seed():
    made = table()
    made.loc[(made.mixer == "delta_rule") & (made.seed == 1) & (made.rate == RATES[0]), "loss"] = 0.6
    found = windows(made, made.loss < 0.5)
    assert found["delta_rule", 1].to_dict() == {0: 4, 1: 3, 2: 4}
    assert found["delta_rule", 2].to_dict() == {0: 2, 1: 1, 2: 2}


def test_two_layers_are_too_few_without_shifted_keys_and_enough_with_them():
    args = (TASK.n_hops, "causal", "many", TASK.order)
    assert depth.minimum_depth(*args).min_layers == 3 > SHAPE.n_layers == shifted.minimum_depth(*args)


def test_every_mixer_has_every_rate_and_the_same_data():
    made = list(runs("cpu"))
    assert len(made) == 5 * len(RATES) * len((*WITHOUT, *BARE, *CONVOLVED)) == len({one.identity for one in made})
    assert {one.task for one in made} == {TASK}


@pytest.mark.parametrize(
    ("names", "change"),
    [
        ({"recall", "two_hops_delta_rule", "wider"}, {"delta_rule": (0, 0)}),
        ({"two_hops_state_space"}, {"state_space": (2, 0)}),
        ({"two_hops_delta_rule"}, {"delta_rule": (4, 0)}),
        ({"needs_convolution"}, {"delta_rule_bare": (1, 1)}),
        ({"needs_depth"}, {"softmax": (4, 1)}),
        ({"wider", "narrow"}, {"state_space": (4, 1)}),
    ],
)
def test_each_claim_holds_and_fails_by_its_own_values(names, change):
    assert {claim.verdict for claim in claims(table())} == {"holds"}
    assert {claim.id for claim in claims(table(**change)) if claim.verdict == "fails"} == names
