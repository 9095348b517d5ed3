"""Tests of initial weights that attend to the previous position: their scores' formula, and an untouched model."""

from __future__ import annotations

import math

import pytest
import torch

from hopscope import Config
from hopscope.core import catalogue
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.measures.base import observe
from hopscope.models import Architecture
from hopscope.problem.symbols import position_code, position_shift
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval

TASK = Retrieval(n_hops=3, order="deepest_first", position_base=100.0)
EARLIER = {"init": "early_layers", "positions": "input", "mlp": True}  # the defaults of version 0.1


def built(**shape):
    return Architecture(**{"n_layers": 2, "d_model": 64, **EARLIER, **shape}).build(TASK, generator(0, "init"))


@pytest.mark.parametrize("steps", [-1, 0, 3])
@pytest.mark.parametrize(("d_code", "base"), [(4, 100.0), (6, 10_000.0)])
def test_the_shift_is_that_of_the_code(steps, d_code, base):
    places = torch.arange(30)
    shifted = position_code(places, d_code, base) @ position_shift(steps, d_code, base)
    assert torch.allclose(shifted, position_code(places + steps, d_code, base), atol=1e-5)


def test_a_task_reads_the_code_off_its_inputs():
    inputs = TASK.sample(2).inputs
    codes = position_code(torch.arange(TASK.n_positions) - 1, 4, 100.0)
    assert torch.allclose(inputs @ TASK.position_features(-1), codes.expand(2, -1, -1), atol=1e-5)
    assert TASK.but(position_code="pair").position_features() is None
    assert Induction().position_features() is None


def test_without_layer_norm_scores_are_the_formula():
    """Scores are gain · Σ cos ω(distance − 1) to the last digit, if the rest of W_Q and W_K is set to 0."""
    model = built(layer_norm=False, look_back=3.0)
    attention = model.blocks[0].attn
    with torch.no_grad():
        attention.W_QKV[:2, :, :, 4:] = 0
    cache = model(TASK.sample(2).inputs, cache=["blocks.0.attn.hook_q", "blocks.0.attn.hook_k"])[1]
    q, k = (cache[name, 0][:, :, 0] for name in ("q", "k"))
    scores = q @ k.transpose(-1, -2) / math.sqrt(64)
    distance = torch.arange(TASK.n_positions)[:, None] - torch.arange(TASK.n_positions)
    formula = 3.0 * ((distance - 1.0).cos() + (0.1 * (distance - 1.0)).cos())
    assert torch.allclose(scores, formula.expand_as(scores), atol=1e-3)


def test_the_head_begins_with_the_token_before_and_the_rest_is_as_drawn():
    plain, turned = built(), built(look_back=20.0)
    batch = TASK.sample(64)
    join = catalogue.find("measures", "join_attention")
    before, after = (join(observe(model, batch)) for model in (plain, turned))
    assert before["L0H0"] < 0.2 < 0.45 < after["L0H0"]
    assert after["L1H0"] == pytest.approx(before["L1H0"], abs=0.1)
    for (name, here), there in zip(plain.named_parameters(), turned.parameters(), strict=True):
        if name != "blocks.0.attn.W_QKV":
            assert torch.equal(here, there), name
    assert torch.equal(plain.blocks[0].attn.W_V, turned.blocks[0].attn.W_V)
    assert torch.equal(plain.blocks[0].attn.W_QKV[:2, :, :, 4:], turned.blocks[0].attn.W_QKV[:2, :, :, 4:])


def test_it_belongs_to_a_run_only_where_it_is_used():
    assert Config(TASK, Architecture(look_back=0.0)).identity == Config(TASK).identity
    assert Config(TASK, Architecture(look_back=1.0)).identity != Config(TASK).identity
    assert Config(TASK, Architecture(**EARLIER)).identity == "8fc5d6745389"  # of version 0.1.0


@pytest.mark.parametrize(
    ("task", "shape", "words"),
    [
        (Induction(), {}, "position code"),
        (TASK.but(position_code="pair"), {}, "position code"),
        (TASK, {"d_head": 2}, "width 4"),
        (TASK, {"d_model": 8, "n_heads": 1}, "d-model above 8"),
    ],
)
def test_where_it_cannot_be_it_is_refused_before_anything_is_trained(task, shape, words):
    with pytest.raises(BadInput, match=words):
        _ = Config(task, Architecture(look_back=1.0, **shape)).identity


def test_the_code_of_the_token_before_stands_beside_ones_own():
    task = TASK.but(position_code="token_and_before")
    inputs, plain = task.sample(2).inputs, TASK.sample(2).inputs
    assert task.d_input == 12 and inputs.shape[-1] == 12
    assert torch.equal(inputs[..., :8], plain)
    assert torch.equal(inputs[:, 1:, 8:], plain[:, :-1, 4:])  # the code is the same in every sequence
    assert Config(task).identity != Config(TASK).identity
