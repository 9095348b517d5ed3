"""Tests of pulls against autograd through the bias, and of the claims on made-up tables."""

from __future__ import annotations

import pytest
import torch
from pandas import DataFrame

from hopscope.core.seeds import generator
from hopscope.experiments.results import claim_ids
from hopscope.interventions.clamps import parse_clamps, replacements
from hopscope.models import Architecture
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.plateau.experiments import plateau_saddle
from hopscope_studies.plateau.gradients import pulls, read_by_queries

TASK = Retrieval(n_hops=2)


@pytest.mark.parametrize("heads", [1, 2])
def test_pulls_add_up_to_the_gradient_of_the_bias(heads):
    """Every position has one role, and β at distance 1 enters scores multiplied by ten."""
    shape = Architecture(n_layers=2, n_heads=heads, d_model=16, positions="relative(start='L0 1:1')")
    model, batch = shape.build(TASK, generator(0, "init")), TASK.sample(32)
    TASK.loss(model(batch.inputs, at=TASK.query_positions), batch.targets).backward()
    exact = float(model.blocks[0].attn.positions["beta"].grad[:, 1].sum()) / 10
    model.zero_grad()
    found = pulls(model, batch)
    assert list(found) == list(batch.roles.names)
    assert sum(found.values()) == pytest.approx(exact, rel=1e-4)
    assert abs(exact) > 1e-6
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_pull_is_the_slope_of_the_loss_along_that_roles_scores():
    """The pull equals the finite difference of the loss when the role's unnormalised entries are scaled by e^(±ε)."""
    shape = Architecture(n_layers=2, d_model=16)
    model, batch = shape.build(TASK, generator(0, "init")).double(), TASK.sample(8)
    inputs, targets = batch.inputs.double(), batch.targets.double()
    role = batch.roles.held()[:, batch.roles.index("value[1]")]

    def loss(epsilon: float) -> float:
        before = torch.ones(TASK.n_positions - 1).diag(-1)
        factor = (epsilon * role[:, :, None] * before).exp()[:, None]
        changed = lambda pattern: pattern * factor / (pattern * factor).sum(-1, keepdim=True)  # noqa: E731
        replace = {"blocks.0.attn.hook_pattern": changed}
        return float(TASK.loss(model(inputs, at=TASK.query_positions, replace=replace).detach(), targets))

    slope = (loss(1e-4) - loss(-1e-4)) / 2e-4
    single = model.float()
    assert pulls(single, batch)["value[1]"] == pytest.approx(slope, rel=2e-2, abs=1e-6)


def test_what_queries_read_is_summed_over_chains():
    shape = Architecture(n_layers=3, d_model=16)
    model, batch = shape.build(TASK, generator(0, "init")), TASK.sample(8)
    clamps = parse_clamps("L2H0 query->key[2] (other) ideal@0")
    held = replacements(clamps, batch, shape)
    plain = model.forward
    model.forward = lambda inputs, **how: plain(inputs, replace=held, **how)
    found = read_by_queries(model, batch)
    assert found["key[2]"] == pytest.approx(1)
    assert 0 < found["value[1]"] < 0.5


def row(start: float, seed: int, role: str, pull: float, read: float, early: bool = True, step: int = 40) -> dict:
    about = {"run": f"{start}.{seed}.{early}", "version": "v", "seed": seed, "start": start, "early": early}
    return {**about, "step": step, "role": role, "pull": pull, "read": read}


def saddle(query: float, weak: float, strong: float, detour: float) -> DataFrame:
    rows = []
    for seed in (0, 1):
        for start, value in ((1, weak), (4, strong)):
            rows += [row(start, seed, "query", query, 0), row(start, seed, "value[1]", value, 0)]
            rows += [row(start, seed, "value[1]", 9, 0, step=80)]  # after the window
        rows += [row(1, seed, "key[2]", 0, detour, False, 400), row(4, seed, "value[1]", 0, 0.9, False, 400)]
    return DataFrame(rows)


def judged(table: DataFrame) -> dict[str, tuple]:
    return {claim.id: (claim.verdict, claim.number) for claim in plateau_saddle.claims(table)}


def test_the_claims_hold_where_they_should():
    found = judged(saddle(0.5, -0.1, -3, 0.95))
    assert list(found) == claim_ids("plateau_saddle")
    assert {verdict for verdict, _ in found.values()} == {"holds"}
    assert found["the_pull_grows_with_the_join"][1] == pytest.approx(-30)


def test_the_claims_fail_where_they_should():
    found = judged(saddle(-0.5, -0.1, 0.3, 0.2))
    assert [verdict for verdict, _ in found.values()] == ["fails"] * 4 + ["holds"]
    assert judged(saddle(0.5, -0.5, -1, 0.9))["the_pull_grows_with_the_join"] == ("fails", pytest.approx(-2))
