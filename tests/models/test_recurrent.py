"""Recurrent layers in parallel form: against the recurrence step by step, and against transformers' layers."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.attention.base_recurrent import convolved
from hopscope.models.attention.delta_rule import DeltaRule
from hopscope.models.attention.state_space import StateSpace
from hopscope.models.base_layers import mask_of
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.induction import Induction
from hopscope.theory import shifted
from hopscope.theory.flow import Chain

TASK = Induction(length=9, d_vocab=12)
N, HEADS, D_MODEL, D_HEAD = 10, 2, 6, 4
BOTH = ("state_space", "delta_rule")


def made(attention: str) -> Transformer:
    """One layer in float64, all of whose weights are large enough to matter."""
    shape = Architecture(
        n_layers=1, n_heads=HEADS, d_model=D_MODEL, d_head=D_HEAD, attention=attention, layer_norm=False
    )
    model, random = shape.build(TASK, generator(0, "init")).double(), generator(1, "weights")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.7 * torch.randn(parameter.shape, generator=random)
    return model.requires_grad_(False)


def passed(model: Transformer) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The layer's input and its activations by their short names."""
    _, cache = model(TASK.sample(2, 0).inputs, cache=True)
    names = ("pattern", "q", "k", "v", "z")
    found = {name: cache[f"blocks.0.attn.hook_{name}"].detach() for name in names}
    return cache["blocks.0.hook_resid_pre"].detach(), {**found, "out": cache["blocks.0.hook_attn_out"].detach()}


def inputs_of(model: Transformer, x: torch.Tensor, head: int) -> list[list[list[float]]]:
    """Queries, keys and values of one head of one sequence, by loops: projection, convolution, SiLU."""
    attn, own, found = model.blocks[0].attn, model.blocks[0].attn.own, []
    for which in range(3):
        plain = (x @ attn.W_QKV[which, head] + attn.b_QKV[which, head]).tolist()
        rows = []
        for i in range(N):
            row = []
            for d in range(D_HEAD):
                total = plain[i][d]
                if "kernel" in own:
                    kernel = own["kernel"][which, head, d].tolist()
                    total = sum(kernel[-1 - back] * plain[i - back][d] for back in range(min(len(kernel), i + 1)))
                row.append(total / (1 + math.exp(-total)))
            rows.append(row)
        found.append(rows)
    return found


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(a: list[float]) -> list[float]:
    return [x / math.sqrt(dot(a, a)) for x in a]


def state_space(model: Transformer, x: torch.Tensor, head: int) -> list[list[float]]:
    """Mamba-2's recurrence of one head, S ← exp(−A Δ) S + Δ k vᵀ, z = q S."""
    own, (q, k, v) = model.blocks[0].attn.own, inputs_of(model, x, head)
    state, results = [[0.0] * D_HEAD for _ in range(D_HEAD)], []
    for i in range(N):
        step = math.log1p(math.exp(float(x[i] @ own["W_dt"][head] + own["b_dt"][head])))
        kept = math.exp(-math.exp(float(own["log_A"][head])) * step)
        state = [[kept * state[a][b] + step * k[i][a] * v[i][b] for b in range(D_HEAD)] for a in range(D_HEAD)]
        results.append([sum(q[i][a] * state[a][b] for a in range(D_HEAD)) for b in range(D_HEAD)])
    return results


def delta_rule(model: Transformer, x: torch.Tensor, head: int) -> list[list[float]]:
    """DeltaNet's recurrence of one head, S ← S + β k (v − k S)ᵀ, z = q S, with q and k of norm 1."""
    own, (q, k, v) = model.blocks[0].attn.own, inputs_of(model, x, head)
    state, results = [[0.0] * D_HEAD for _ in range(D_HEAD)], []
    for i in range(N):
        key, query = unit(k[i]), unit(q[i])
        share = 1 / (1 + math.exp(-float(x[i] @ own["W_beta"][head])))
        held = [sum(key[a] * state[a][b] for a in range(D_HEAD)) for b in range(D_HEAD)]
        state = [[state[a][b] + share * key[a] * (v[i][b] - held[b]) for b in range(D_HEAD)] for a in range(D_HEAD)]
        results.append([sum(query[a] * state[a][b] for a in range(D_HEAD)) for b in range(D_HEAD)])
    return results


RECURRENCES = {"state_space": state_space, "delta_rule": delta_rule}


@pytest.mark.parametrize("convolution", [0, 1, 2, 4])
@pytest.mark.parametrize("name", BOTH)
def test_the_parallel_form_is_the_recurrence(name, convolution):
    model = made(f"{name}(convolution={convolution})")
    x, found = passed(model)
    attn, wanted = model.blocks[0].attn, torch.zeros(2, N, D_MODEL, dtype=torch.float64)
    for row in range(2):
        for head in range(HEADS):
            z = torch.tensor(RECURRENCES[name](model, x[row], head), dtype=torch.float64)
            assert torch.allclose(found["z"][row, :, head], z, atol=1e-10)
            normed = z / (z.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            wanted[row] += normed @ attn.W_O[head].detach()
    assert torch.allclose(found["out"], wanted + attn.b_O.detach(), atol=1e-9)


@pytest.mark.parametrize("name", BOTH)
def test_gradients_are_those_of_finite_differences(name):
    model, inputs = made(name).requires_grad_(), TASK.sample(2, 0).inputs
    model(inputs).square().sum().backward()
    for parameter in model.blocks[0].attn.variant.values():
        index = tuple(size // 2 for size in parameter.shape)
        with torch.no_grad():
            ends = []
            for change in (1e-6, -2e-6):
                parameter[index] += change
                ends.append(float(model(inputs).square().sum()))
            parameter[index] += 1e-6
        assert float(parameter.grad[index]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)


# Another implementation -------------------------------------------------------------------------------------------


def test_a_state_space_is_mamba_2s_scan_in_transformers():
    mamba = pytest.importorskip("transformers.models.mamba2.modeling_mamba2", reason="pip install 'hopscope[language]'")
    random = generator(0, "heads")
    q, k, v = (torch.randn(3, HEADS, N, D_HEAD, generator=random) for _ in range(3))
    x, own = torch.randn(3, N, D_MODEL, generator=random), StateSpace(convolution=0).own_of(HEADS, D_MODEL, D_HEAD)
    for parameter in own.values():
        parameter.copy_(torch.randn(parameter.shape, generator=random))
    steps = x @ own["W_dt"].T
    by_position = [each.transpose(1, 2) for each in (F.silu(q), F.silu(k), F.silu(v))]
    wanted = mamba.mamba2_chunk_scan(
        by_position[2], steps, -own["log_A"].exp(), *by_position[1::-1], 4, dt_bias=own["b_dt"], dt_softplus=True
    )
    rule = StateSpace(convolution=0)
    mask = rule.bias(mask_of(N, True), x, own)
    pattern, values = rule.attend(*rule.queries_and_keys(q, k, x, own), rule.values(v, x, v[0, :, 0], own), mask, own)
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    assert torch.allclose((pattern @ values).transpose(1, 2), wanted, atol=1e-5)


@pytest.mark.parametrize("form", ["recurrent", "chunk"])
def test_the_delta_rule_is_qwen_3_nexts_in_transformers(form):
    """Their layer without decay; they divide queries by √d_head, which our norm of the results makes irrelevant."""
    name = "transformers.models.qwen3_next.modeling_qwen3_next"
    qwen = pytest.importorskip(name, reason="pip install 'hopscope[language]'")
    random, rule = generator(0, "heads"), DeltaRule(convolution=0)
    q, k, v = (torch.randn(3, HEADS, N, D_HEAD, generator=random) for _ in range(3))
    x = torch.randn(3, N, D_MODEL, generator=random)
    own = {"W_beta": torch.randn(HEADS, D_MODEL, generator=random)}
    beta, still = (x @ own["W_beta"].T).sigmoid(), torch.zeros(3, N, HEADS)
    theirs = getattr(qwen, f"torch_{form}_gated_delta_rule")
    by_position = [F.silu(each).transpose(1, 2) for each in (q, k, v)]
    wanted, _ = theirs(*by_position, g=still, beta=beta, use_qk_l2norm_in_kernel=True)
    q, k = rule.queries_and_keys(q, k, x, own)
    pattern, values = rule.attend(q, k, rule.values(v, x, v[0, :, 0], own), mask_of(N, True), own)
    assert torch.allclose((pattern @ values).transpose(1, 2), D_HEAD**0.5 * wanted, atol=1e-4)


def test_the_convolution_is_pytorchs():
    heads = torch.randn(3, HEADS, N, D_HEAD, generator=generator(0, "heads"))
    kernel = torch.randn(HEADS, D_HEAD, 4, generator=generator(1, "heads"))
    channels = F.pad(heads.permute(0, 1, 3, 2).flatten(1, 2), (3, 0))
    wanted = F.conv1d(channels, kernel.flatten(0, 1)[:, None], groups=HEADS * D_HEAD)
    assert torch.allclose(convolved(heads, kernel), wanted.unflatten(1, (HEADS, D_HEAD)).mT, atol=1e-6)


# What the layers can do, and what they refuse -----------------------------------------------------------------------


def test_a_full_write_replaces_what_the_same_key_held():
    """With β = 1 the later of two writes to one key is read, and nothing of the earlier; linear attention adds them."""
    key = F.normalize(torch.ones(1, 1, 3, D_HEAD), dim=-1)
    pattern, _ = DeltaRule().attend(key, key, key, mask_of(3, True), {})
    assert torch.allclose(pattern[0, 0], torch.eye(3), atol=1e-6)


def test_a_layer_of_the_delta_rule_follows_a_chain_of_keys():
    """The query meets key 1 alone, which overlaps key 0: one layer reaches its value, against both theories."""
    a, b, c = torch.eye(3)
    keys = torch.stack([(b + c) / 2**0.5, (a + b) / 2**0.5, c])[None, None]
    queries = torch.stack([c, c, a])[None, None]
    assert queries[0, 0, 2] @ keys[0, 0, 0] == 0
    pattern, _ = DeltaRule().attend(queries, keys, keys, mask_of(3, True), {})
    assert float(pattern[0, 0, 2, 0]) == pytest.approx(-(2**-0.5) / 2)  # −(q·k₁)(k₁·k₀)
    assert DeltaRule().shifted is None


@pytest.mark.parametrize("order", ["deepest", "nearest"])
def test_mixed_queries_do_not_change_the_least_depth(order):
    """A convolution mixes queries, too. With facts complete on both sides, plain flow on facts needs as many layers."""
    for hops in range(1, 17):
        steps = range(1, hops + 1) if order == "nearest" else range(hops, 0, -1)
        needed = next(n for n in range(9) if reached(Chain(hops, tuple(steps)), n))
        assert needed == shifted.closed_form(hops)


def reached(chain: Chain, n_layers: int) -> bool:
    """Whether the query holds the last piece, when queries, too, include what the first token of a fact holds."""
    held = chain.start()
    for _ in range(n_layers):
        whole = shifted.offered(held)
        seen = [
            [whole[j] for j in range(len(held)) if chain.sees(i, j) and meets(whole[i], whole[j])]
            for i in range(len(held))
        ]
        held = tuple(
            (min(low for low, _ in (*some, held[i])), max(high for _, high in (*some, held[i])))
            for i, some in enumerate(seen)
        )
    return held[0][1] == chain.last


def meets(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def test_only_a_state_space_with_a_convolution_is_shifted():
    assert [StateSpace(convolution=n).shifted for n in (0, 1, 2, 4)] == [False, False, True, True]


@pytest.mark.parametrize("name", BOTH)
def test_a_recurrence_needs_a_causal_mask(name):
    with pytest.raises(BadInput, match=f"{name} is a recurrence, which needs a causal mask"):
        Architecture(attention=name, causal=False)
