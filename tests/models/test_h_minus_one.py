"""Mixtures of h − 1 heads: exact identities."""

from __future__ import annotations

import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.induction import Induction

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
