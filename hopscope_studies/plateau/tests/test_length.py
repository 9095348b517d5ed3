"""Tests of `plateau_length`: predicted laws against the integrated flow, and claims on made-up tables."""

from __future__ import annotations

import math

import numpy
import pytest
from pandas import DataFrame

from hopscope.configuration.presets import recipe
from hopscope.experiments.base import declared
from hopscope.experiments.values import power_law
from hopscope_studies.plateau.experiments.plateau_length import CHAINS, claims, under_adam, under_flow
from hopscope_studies.plateau.theory.two_factor import Places, TwoFactor

LENGTHS = [3 * chains for chains in CHAINS["long"]]


def test_the_law_under_flow_is_that_of_the_flow_itself():
    """The flow is integrated numerically without cost and wear; the closed form needs a small p, so it fails at 12."""
    times = [
        float(TwoFactor(Places.of(length // 3, 1, "deepest_first"), 0.02, 0.02).learning_time(0.0, 40_000, 20))
        for length in LENGTHS
    ]
    assert power_law(LENGTHS, times)[1] == pytest.approx(power_law(LENGTHS, map_of(under_flow))[1], abs=0.2)


def map_of(law) -> list[float]:
    return [law(length) for length in LENGTHS]


def test_limits_are_quadratic_and_three_quarters_but_for_logarithms():
    """With p = H_N/2N both limits gain a factor ln n, and under AdamW the power also has a factor √ln n."""
    far = numpy.array([3 * 10**5, 3 * 10**6])
    harmonic, n = numpy.log(far / 3) + numpy.euler_gamma, [int(length) for length in far]
    flow = numpy.array([under_flow(length) for length in n]) * harmonic
    assert power_law(far, flow)[1] == pytest.approx(2, abs=0.01)
    adam = numpy.array([under_adam(length) for length in n]) * harmonic
    roots = numpy.sqrt(numpy.log([2 * (length / 3) / h for length, h in zip(far, harmonic, strict=True)]))
    assert power_law(far, adam / roots)[1] == pytest.approx(0.75, abs=0.01)


def test_every_length_is_there_with_eight_seeds_and_the_demos_recipe():
    configs, demo = declared("plateau_length", "long"), recipe("demo").config()
    assert len(configs) == 8 * len(LENGTHS)
    assert {config.task.n_positions for config in configs} == set(LENGTHS)
    assert {config.task.n_hops for config in configs} == {1}
    for config in configs:
        assert config.model == demo.model and config.task.position_base == demo.task.position_base
        assert config.training.stop_below < config.task.learnt_below


def rows(wait) -> DataFrame:
    """Rows of three seeds whose waits are this function of the length; ∞ is censored."""
    found = []
    for seed in range(3):
        for length in LENGTHS:
            steps = wait(length) * (1 + 0.02 * seed)
            steps = steps if math.isfinite(steps) else math.nan
            run = {"run": f"{seed}-{length}", "seed": seed, "length": length, "steps": 2500, "k": 1}
            found.append(run | {"wait": steps, "learnt": 30 + steps})
    return DataFrame(found)


@pytest.mark.parametrize(
    ("wait", "verdicts"),
    [
        pytest.param(lambda n: 10 * n**0.6, ["holds", "holds", "fails"], id="as under AdamW"),
        pytest.param(lambda n: n**1.5, ["holds", "fails", "holds"], id="as under flow"),
        pytest.param(lambda n: n**2.0, ["holds", "fails", "fails"], id="steeper than both"),
        pytest.param(lambda n: n if n < 72 else math.inf, ["fails", "undecided", "undecided"], id="one never"),
    ],
)
def test_what_the_claims_say(wait, verdicts):
    assert [claim.verdict for claim in claims(rows(wait))] == verdicts
