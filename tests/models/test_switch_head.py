"""SwitchHead's exact identities, and how many numbers and maps it has."""

from __future__ import annotations

import pytest
import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.attention.switch_head import SwitchHead
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.induction import Induction

TASK = Induction(length=6, d_vocab=8)
D_MODEL, HEADS, D_HEAD = 16, 3, 5


def made(attention: str) -> Transformer:
    """One layer of heads, attention only, no norms, with biases that are not 0."""
    shape = Architecture(
        n_layers=1, n_heads=HEADS, d_model=D_MODEL, d_head=D_HEAD, mlp=False, layer_norm=False, attention=attention
    )
    model = shape.build(TASK, generator(0, "init"))
    with torch.no_grad():
        model.blocks[0].attn.b_QKV.normal_(generator=generator(1, "bias"))
    return model


@torch.no_grad()
def written(model: Transformer, inputs: torch.Tensor) -> torch.Tensor:
    """What the layer adds to the stream."""
    return model(inputs, cache=["blocks.0.hook_attn_out"])[1]["blocks.0.hook_attn_out"]


@torch.no_grad()
def alike(model: Transformer, plain: Transformer) -> None:
    """Give a model the weights of a plain one where it has the same."""
    for name, parameter in plain.named_parameters():
        model.get_parameter(name).copy_(parameter)


def test_one_expert_is_attention_with_a_sigmoid_gate_on_each_head_s_output():
    model, plain = made("switch_head(experts=1)"), made("softmax")
    alike(model, plain)
    inputs = TASK.sample(4, 0).inputs
    x, z = (plain(inputs, cache=True)[1][name] for name in ("blocks.0.hook_resid_pre", "blocks.0.attn.hook_z"))
    attn = model.blocks[0].attn
    gate = torch.einsum("bpd,hd->bph", x, attn.variant["W_gate_O"][..., 0]).sigmoid()
    expected = torch.einsum("bphk,bph,hkd->bpd", z, gate, attn.W_O) + attn.b_O
    assert torch.allclose(written(model, inputs), expected, atol=1e-6)


@pytest.mark.parametrize(("experts", "k"), [(2, 2), (4, 2), (4, 3), (5, 5)])
def test_identical_experts_with_open_gates_are_k_squared_times_plain_attention(experts, k):
    """k times in the values, k times in the outputs; the values' bias is added once, so it is 0 here."""
    model, plain = made(f"switch_head(experts={experts}, chosen={k})"), made("softmax")
    inputs = TASK.sample(4, 0).inputs
    with torch.no_grad():
        plain.blocks[0].attn.b_QKV[2].zero_()
        alike(model, plain)
        attn = model.blocks[0].attn
        for name in ("V", "O"):
            attn.variant[f"W_{name}_more"].copy_(getattr(attn, f"W_{name}")[:, None].expand(-1, experts - 1, -1, -1))
        open_gates = {"W_gate_V": 60.0, "W_gate_O": 60.0}
        model.W_pos.zero_()
        plain.W_pos.zero_()
        model.W_E[:, 0] = plain.W_E[:, 0] = 1.0  # one feature is always there, and opens the gates
        for name, height in open_gates.items():
            attn.variant[name].zero_()
            attn.variant[name][:, 0] = height + torch.arange(experts) / 8  # unequal, so that k are chosen
    assert torch.allclose(written(model, inputs), k**2 * written(plain, inputs), rtol=1e-4, atol=1e-5)


def test_permuting_experts_with_their_gates_changes_nothing():
    model, other = made("switch_head"), made("switch_head")
    inputs, order = TASK.sample(4, 0).inputs, torch.tensor([2, 0, 3, 1])
    with torch.no_grad():
        attn = other.blocks[0].attn
        for name in ("W_gate_V", "W_gate_O"):
            attn.variant[name].copy_(attn.variant[name][..., order])
        for name, first in (("V", attn.W_QKV[2]), ("O", attn.W_O)):
            more = attn.variant[f"W_{name}_more"]
            every = torch.cat([first[:, None], more], 1)[:, order]
            first.copy_(every[:, 0])
            more.copy_(every[:, 1:])
    assert torch.allclose(written(model, inputs), written(other, inputs), atol=1e-6)


def test_values_and_outputs_are_the_sums_of_the_paper_term_by_term():
    """In plain loops: Σ over chosen experts of gate times expert, at the key for values, at the query for outputs."""
    model = made("switch_head")
    inputs = TASK.sample(2, 0).inputs
    cache = model(inputs, cache=True)[1]
    x, pattern, attn = cache["blocks.0.hook_resid_pre"][0], cache["pattern", 0][0], model.blocks[0].attn
    out = attn.b_O.clone().expand(len(x), -1).clone()
    for h in range(HEADS):
        v_experts = [attn.W_V[h], *attn.variant["W_V_more"][h]]
        o_experts = [attn.W_O[h], *attn.variant["W_O_more"][h]]
        values = torch.stack([summed(row, row, attn.variant["W_gate_V"][h], v_experts) for row in x]) + attn.b_QKV[2, h]
        for t in range(len(x)):
            out[t] += summed(x[t], pattern[h, t] @ values, attn.variant["W_gate_O"][h], o_experts)
    assert torch.allclose(cache["blocks.0.hook_attn_out"][0], out, atol=1e-5)


def summed(chooser: torch.Tensor, row: torch.Tensor, gate: torch.Tensor, experts: list[torch.Tensor]) -> torch.Tensor:
    """Of the two experts whose gates are widest, gate times what they make of a row."""
    opened = (chooser @ gate).sigmoid()
    return sum(opened[e] * (row @ experts[e]) for e in opened.argsort(descending=True)[:2].tolist())


@pytest.mark.parametrize("experts", [2, 4, 7])
def test_its_parameters_are_those_of_the_closed_form_and_its_maps_one_a_head(experts):
    """2 d H d_h for queries and keys, 2 d H E d_h for experts, 2 d H E for gates; biases as in every layer."""
    model = made(f"switch_head(experts={experts})")
    attn = model.blocks[0].attn
    biases = attn.b_QKV.numel() + attn.b_O.numel()
    product = D_MODEL * HEADS
    assert sum(p.numel() for p in attn.parameters()) - biases == product * (
        2 * D_HEAD + 2 * experts * D_HEAD + 2 * experts
    )
    assert model(TASK.sample(1, 0).inputs, cache=True)[1]["pattern", 0].shape[1:] == (HEADS, 7, 7)


def test_gates_start_with_equal_norms():
    for name in ("W_gate_V", "W_gate_O"):
        norms = made("switch_head").blocks[0].attn.variant[name].detach().norm(dim=1)
        assert torch.allclose(norms, norms.mean().expand_as(norms), rtol=1e-5) and float(norms.mean()) > 0


def test_more_experts_chosen_than_there_are_is_refused():
    with pytest.raises(BadInput, match="chosen must be at most experts, 3; got 4"):
        SwitchHead(experts=3, chosen=4)
