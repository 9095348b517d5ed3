"""Mixtures of h − 1 heads: exact identities."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.attention.h_minus_one import HMinusOne, one_of
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.induction import Induction
from hopscope.training.loop import Interrupted, train
from hopscope.training.stack import stackable
from hopscope.training.trainer import Trainer

TASK = Induction(length=6, d_vocab=8)
HEADS = 4


def made(attention: str) -> Transformer:
    return Architecture(n_layers=1, n_heads=HEADS, d_model=16, mlp=False, attention=attention).build(
        TASK, generator(0, "init")
    )


@pytest.fixture
def models() -> tuple[Transformer, Transformer]:
    """A mixture, and plain attention of the same weights."""
    mixture, plain = made("h_minus_one"), made("softmax")
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            mixture.get_parameter(name).copy_(parameter)
    return mixture, plain


def gate_only(model: Transformer, head: int | None) -> None:
    """Let the gate choose the expert without one head; None: all experts evenly."""
    own = model.blocks[0].attn.variant
    with torch.no_grad():
        own["W_gate_out"].zero_()
        if head is not None:
            own["b_gate_out"][head] = 1e4


def test_an_even_gate_is_softmax_attention(models):
    mixture, plain = models
    gate_only(mixture, None)
    inputs = TASK.sample(8, 0).inputs
    assert torch.allclose(mixture(inputs), plain(inputs), atol=1e-6)


@pytest.mark.parametrize("head", range(HEADS))
def test_an_expert_is_the_other_heads_scaled_up(models, head):
    """By h / (h − 1), in place of the head that is left out."""
    mixture, plain = models
    gate_only(mixture, head)
    inputs = TASK.sample(8, 0).inputs
    kept = torch.ones(HEADS)
    kept[head] = 0
    scaled = {"blocks.0.attn.hook_z": lambda z: z * kept[:, None] * HEADS / (HEADS - 1)}
    assert torch.allclose(mixture(inputs), plain(inputs, replace=scaled), atol=1e-5)


def test_the_head_that_an_expert_leaves_out_gets_exactly_no_gradient(models):
    mixture, _ = models
    gate_only(mixture, 2)
    batch = TASK.sample(16, 0)
    TASK.loss(mixture(batch.inputs, at=TASK.query_positions), batch.targets).backward()
    attn = mixture.blocks[0].attn
    for gradient, axis in ((attn.W_QKV.grad, 1), (attn.W_O.grad, 0)):
        by_head = gradient.movedim(axis, 0).flatten(1).abs().sum(1)
        assert by_head[2] == 0 and (by_head[[0, 1, 3]] > 0).all()


def test_weights_of_heads_sum_to_h_and_at_most_one_is_dropped(models):
    mixture, _ = models
    attn = mixture.blocks[0].attn
    x = torch.randn(3, 5, 16, generator=generator(0, "x"))
    z, _ = attn.rule.read_out(torch.ones(3, 5, HEADS, 2), x, attn.W_O, attn.variant)
    weights = z[..., 0]
    assert torch.allclose(weights.sum(-1), torch.full((3, 5), float(HEADS)), atol=1e-5)
    assert (weights >= 0).all() and (weights <= HEADS / (HEADS - 1) + 1e-6).all() and weights.std() > 0


def test_one_head_cannot_be_left_out():
    with pytest.raises(BadInput, match="needs 2 heads or more; got 1"):
        Architecture(n_layers=1, d_model=8, attention="h_minus_one").build(TASK, generator(0, "init"))


# Training in turn -----------------------------------------------------------------------------------------------------

IN_TURN = "h_minus_one(trained='in_turn', period=5, of_gate=2)"


def trained(attention: str, steps: int = 1) -> Trainer:
    """A trainer after some updates."""
    shape = Architecture(n_layers=2, n_heads=HEADS, d_model=16, mlp=False, attention=attention)
    found = Trainer(Config(TASK, shape, Training(steps=20, batch=8)), torch.device("cpu"))
    for step in range(steps):
        found.step(step)
    return found


def changed(trainer: Trainer, step: int) -> set[str]:
    """The weights that the update after `step` others changes."""
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.step(step)
    return {name for name, p in trainer.model.named_parameters() if not torch.equal(p, before[name])}


def test_gates_are_trained_in_the_last_updates_of_a_period_and_all_else_in_the_others():
    trainer = trained(IN_TURN, 0)
    names = {name for name, _ in trainer.model.named_parameters()}
    gates = {name for name in names if "_gate_" in name}
    assert len(gates) == 8
    for step in range(10):
        found = changed(trainer, step)
        assert found == (gates if step % 5 >= 3 else names - gates), step


def test_with_one_expert_drawn_the_head_that_it_leaves_out_gets_exactly_no_gradient():
    model = made(IN_TURN)
    attn = model.blocks[0].attn
    with torch.no_grad():
        attn.variant["b_gate_out"].copy_(torch.tensor([0.0, 0.0, 40.0, 0.0]))  # head 2 is all but certain
    model.begin_update(0, 16, generator(0, "update"))
    batch = TASK.sample(16, 0)
    TASK.loss(model(batch.inputs, at=TASK.query_positions), batch.targets).backward()
    by_head = attn.W_QKV.grad.movedim(1, 0).flatten(1).abs().sum(1)
    assert by_head[2] == 0 and (by_head[[0, 1, 3]] > 0).all()
    assert all(attn.variant[name].grad is None for name in attn.variant)
    model.end_update(0)
    assert attn.drawn == {}


def test_experts_are_drawn_as_often_as_the_gates_say():
    gates = torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(20_000, 3, 4)
    drawn = one_of(gates, torch.rand(20_000, 1, 1, generator=generator(0, "luck")))
    assert (drawn.sum(-1) == 1).all() and torch.equal(drawn[:, 0], drawn[:, 2])
    assert torch.allclose(drawn[:, 0].mean(0), gates[0, 0], atol=0.02)
    assert torch.equal(one_of(gates[:1, :1], torch.ones(1, 1, 1))[0, 0], torch.tensor([0.0, 0.0, 0.0, 1.0]))


def test_an_even_gate_in_turn_is_attention_with_one_head_dropped_in_training_alone():
    model, plain = made("h_minus_one(gate='even', trained='in_turn')"), made("softmax")
    model.load_state_dict(plain.state_dict())
    inputs = TASK.sample(4, 0).inputs
    assert torch.allclose(model(inputs), plain(inputs), atol=1e-6)
    model.begin_update(0, 4, generator(0, "update"))
    luck = model.blocks[0].attn.drawn["luck"].flatten()
    kept = 1 - torch.nn.functional.one_hot((luck * HEADS).long(), HEADS).float()
    scaled = {"blocks.0.attn.hook_z": lambda z: z * kept[:, None, :, None] * HEADS / (HEADS - 1)}
    assert torch.allclose(model(inputs), plain(inputs, replace=scaled), atol=1e-5)
    model.end_update(0)
    assert torch.allclose(model(inputs), plain(inputs), atol=1e-6)


def test_jointly_trained_it_is_as_before():
    """Every weight in every update, and nothing drawn."""
    trainer = trained("h_minus_one")
    assert not trainer.config.model.takes_turns
    assert changed(trainer, 1) == {name for name, _ in trainer.model.named_parameters()}


def test_an_interrupted_run_draws_as_an_uninterrupted_one(tmp_path):
    shape = Architecture(n_layers=2, n_heads=HEADS, d_model=16, mlp=False, attention=IN_TURN)
    config = Config(TASK, shape, Training(steps=8, batch=8, val_size=8, log_every=4, checkpoints="4"))
    whole = train(config, tmp_path / "whole")
    calls = iter([False] * 3 + [True] * 20)
    with pytest.raises(Interrupted):
        train(config, tmp_path / "halved", should_stop=lambda: next(calls))
    halved = train(config, tmp_path / "halved")
    one, other = (run.checkpoint(8).model for run in (whole, halved))
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def test_runs_that_take_turns_are_not_stacked():
    config = Config(TASK, Architecture(n_heads=4, d_model=16, attention=IN_TURN), Training(steps=2))
    assert not stackable(config)
    assert stackable(replace(config, model=config.model.but(attention="h_minus_one")))


def test_a_period_of_gates_alone_is_refused():
    with pytest.raises(BadInput, match="of_gate must be below the period, 5; got 5"):
        HMinusOne(period=5, of_gate=5)
