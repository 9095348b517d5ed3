"""Recipes with a prior for the previous token: the paper's shapes, and what is added to them; every hop is learnt."""

from __future__ import annotations

import math

import pytest
import torch

from hopscope import train
from hopscope.circuits.discovery import discover
from hopscope.configuration.presets import PRIOR, RECIPES
from hopscope.core.seeds import generator
from hopscope.theory.depth import minimum_depth

SHAPES = ["transformer_abc_prior", "transformer_d_prior", "figure_4_prior"]
PRIORS = [*SHAPES, "three_hops", "five_hops", "minimum_depth"]


def test_all_that_have_the_prior_are_tried_here():
    having = [name for name, recipe in RECIPES.items() if recipe.model.get("positions") == PRIOR]
    assert sorted(having) == sorted(PRIORS)


@pytest.mark.parametrize(
    ("ours", "papers"), [("transformer_abc_prior", "transformer_abc"), ("transformer_d_prior", "transformer_d")]
)
def test_the_shape_is_the_papers_but_for_the_prior_and_the_initial_scale(ours, papers):
    with_prior, without = RECIPES[ours].config().parts["model"], RECIPES[papers].config().parts["model"]
    assert with_prior.but(positions=None, init="gpt2") == without
    assert RECIPES[ours].config().task.n_hops == RECIPES[papers].config().task.n_hops


def test_the_least_depth_is_the_exact_one():
    config = RECIPES["minimum_depth"].config()
    assert config.model.n_layers == minimum_depth(config.task.n_hops, "causal", "one", "deepest_first").min_layers == 4


@pytest.mark.parametrize("name", PRIORS)
def test_facts_stand_deepest_first_and_layer_0_begins_with_the_token_before(name):
    """Without the drawn weights, a score of 4 above the others' 0 gives position t a share of e⁴ / (e⁴ + t)."""
    config = RECIPES[name].config()
    assert config.task.order == "deepest_first"
    shape = config.model.but(n_layers=1, d_model=64, d_head=16, d_mlp=None)
    model, batch = shape.build(config.task, generator(0, "init")), config.task.sample(8)
    with torch.no_grad():
        model.blocks[0].attn.W_QKV[:2] = 0.0
        pattern = model(batch.inputs, cache=["blocks.0.attn.hook_pattern"])[1]["pattern", 0]
    before = pattern.diagonal(-1, -2, -1)[..., 1:]
    places = torch.arange(2, config.task.n_positions)
    assert torch.allclose(before, math.exp(4) / (math.exp(4) + places), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_five_hops_are_learnt(tmp_path, seed):
    run = train(RECIPES["five_hops"].config(seed=seed), tmp_path / "run", compile="off")
    assert max(run.report["hop_losses"].values()) < 0.1, run.report["hop_losses"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_three_hops_are_solved_and_explained(tmp_path, seed):
    run = train(RECIPES["three_hops"].config(seed=seed), tmp_path / "run", compile="off")
    assert max(run.report["hop_losses"].values()) < 0.05, run.report["hop_losses"]
    circuit = discover(run.model, run.task)
    assert circuit.verdict == "circuit" and circuit.losses["circuit"].mean < 0.05, circuit.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer_abc_prior", "transformer_d_prior"])
def test_the_papers_shapes_are_solved(tmp_path, name):
    run = train(RECIPES[name].config(), tmp_path / "run", compile="off")
    assert max(run.report["hop_losses"].values()) < 0.05, run.report["hop_losses"]
