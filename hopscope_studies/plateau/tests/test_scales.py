"""Tests of `plateau_scales`: the ingredients of the laws, the runs, and the claims."""

from __future__ import annotations

import math

import pytest
import torch
from pandas import DataFrame

from hopscope.problem.symbols import position_code
from hopscope_studies.plateau.experiments import plateau_scales
from hopscope_studies.plateau.experiments.plateau_scales import SCALES, claims, contrast, runs


@pytest.mark.parametrize("base", [10.0, 10_000.0])
def test_the_contrast_is_the_gradient_over_noise_drawn_at_random(base):
    """The contrast equals autograd's with signs drawn at random, for uniform attention with the facts 0, 1; 2, 3; …"""
    torch.manual_seed(0)
    code = position_code(torch.arange(16), 4, base).double()
    sees = torch.ones(16, 16, dtype=torch.bool).tril()
    weights = torch.zeros(4, 4, dtype=torch.double, requires_grad=True)

    def scores(change: torch.Tensor) -> torch.Tensor:
        return code @ change @ code.T

    pattern = scores(weights).masked_fill(~sees, -math.inf).softmax(-1)
    values = torch.arange(1, 16, 2)
    (mean,) = torch.autograd.grad(pattern[values, values - 1].sum(), weights, retain_graph=True)
    noises = []
    for _ in range(3000):
        signs = torch.randint(2, pattern.shape) * 2.0 - 1
        noises.append(torch.autograd.grad((pattern * signs)[values].sum(), weights, retain_graph=True)[0])
    gained = scores(mean / torch.stack(noises).std(0))
    above = [gained[i, i - 1] - gained[i, : i + 1].mean() for i in values.tolist()]
    assert contrast(base) == pytest.approx(float(sum(above)), rel=0.05)


def test_one_thing_is_changed_at_a_time_from_the_demos_recipe_and_no_run_twice():
    every = list(runs("long"))
    identities = [config.identity for config in every]
    assert len(identities) == len(set(identities)) == 8 * (6 + 5 + 5 + 5 + 5)  # the recipe itself is in three scales
    for scale in SCALES:
        one, other = (scale.config(value, 0, 4000) for value in scale.values[:2])
        assert str(one.difference(other)).startswith(" ".join((*scale.setting, "is")))


@pytest.mark.parametrize(("off", "verdict"), [(0.0, "holds"), (1.0, "fails")])
def test_a_world_that_obeys_the_laws_bears_them_out_and_another_does_not(off, verdict):
    rows = [
        {"changed": s.name, "value": v, "hop": s.hop, "run": f"{s.name}{v}{seed}", "seed": seed, "prior": "none",
         "learnt": 500.0, "wait": (100 + seed) * s.law(v) * v**off}
        for s in SCALES for v in s.values for seed in range(3)
    ]  # fmt: skip
    table = DataFrame(rows)
    assert [claim.verdict for claim in claims(table)] == [verdict] * len(SCALES)
    never = table.assign(learnt=math.nan, wait=math.nan)
    assert {claim.verdict for claim in claims(never)} == {"undecided"}
    plateau_scales.figure(never)
