"""The transformer against a plain PyTorch one with the same weights; its activations, read and replaced by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput
from hopscope.models.attention.kv_shift import KVShift
from hopscope.models.attention.linear import Linear
from hopscope.models.attention.softmax import Softmax
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.retrieval import Retrieval

N_POSITIONS, D_INPUT, D_VOCAB, D_OUTPUT = 9, 5, 13, 3
QUERIES = slice(-2, None)
PATTERN = "blocks.1.attn.hook_pattern"


class PlainBlock(nn.Module):
    """A GPT-2 block of PyTorch's own layers."""

    def __init__(self, a: Architecture):
        super().__init__()
        self.a = a
        d_attention = a.n_heads * a.head_width
        self.ln1 = nn.LayerNorm(a.d_model) if a.layer_norm else nn.Identity()
        self.qkv = nn.Linear(a.d_model, 3 * d_attention)
        self.out = nn.Linear(d_attention, a.d_model)
        if a.mlp:
            self.ln2 = nn.LayerNorm(a.d_model) if a.layer_norm else nn.Identity()
            self.hidden, self.up = nn.Linear(a.d_model, a.mlp_width), nn.Linear(a.mlp_width, a.d_model)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.a.n_heads, -1)).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, -1)
        )
        z = F.scaled_dot_product_attention(q, k, v, is_causal=self.a.causal)
        x = x + self.out(z.transpose(1, 2).flatten(2))
        return x + self.up(F.gelu(self.hidden(self.ln2(x)), approximate="tanh")) if self.a.mlp else x


class Plain(nn.Module):
    """Embedding, blocks, LayerNorm, unembedding, of PyTorch's own layers."""

    def __init__(self, a: Architecture, tokens: bool):
        super().__init__()
        self.embed = nn.Embedding(D_VOCAB, a.d_model) if tokens else nn.Linear(D_INPUT, a.d_model)
        self.positions = nn.Embedding(N_POSITIONS, a.d_model) if tokens else None
        self.blocks = nn.ModuleList(PlainBlock(a) for _ in range(a.n_layers))
        self.ln_final = nn.LayerNorm(a.d_model) if a.layer_norm else nn.Identity()
        self.unembed = nn.Linear(a.d_model, D_OUTPUT)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.embed(inputs)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.ln_final(x))


def in_plain_terms(model: Transformer, of=lambda parameter: parameter.detach()) -> dict[str, Tensor]:
    """Our weights, or what `of` takes of them, under the plain model's names and in its layout (out, in)."""
    tokens = model.b_E is None
    found = {"embed.weight": of(model.W_E) if tokens else of(model.W_E).T}
    found |= {"positions.weight": of(model.W_pos)} if tokens else {"embed.bias": of(model.b_E)}
    found |= {"unembed.weight": of(model.W_U).T, "unembed.bias": of(model.b_U)}
    norms = {"ln_final": model.ln_final}
    for layer, block in enumerate(model.blocks):
        at, attn, mlp = f"blocks.{layer}", block.attn, block.mlp
        norms |= {f"{at}.ln1": block.ln1, f"{at}.ln2": block.ln2}
        found[f"{at}.qkv.weight"] = of(attn.W_QKV).transpose(2, 3).flatten(0, 2)  # 3·head·d_head d_model
        found[f"{at}.qkv.bias"] = of(attn.b_QKV).flatten()
        found |= {f"{at}.out.weight": of(attn.W_O).flatten(0, 1).T, f"{at}.out.bias": of(attn.b_O)}
        if mlp is not None:
            found |= {f"{at}.hidden.weight": of(mlp.W_in).T, f"{at}.hidden.bias": of(mlp.b_in)}
            found |= {f"{at}.up.weight": of(mlp.W_out).T, f"{at}.up.bias": of(mlp.b_out)}
    for name, norm in norms.items():
        if model.architecture.layer_norm and norm is not None:
            found |= {f"{name}.weight": of(norm.w), f"{name}.bias": of(norm.b)}
    return found


@torch.no_grad()
def make(tokens: bool = False, **changes) -> Transformer:
    """A small model whose weights are so large that patterns are far from even, and whose biases are not zero."""
    model = Transformer(
        Architecture(**{"n_layers": 2, "n_heads": 2, "d_model": 16, "mlp": True, "positions": None, **changes}),
        n_positions=N_POSITIONS,
        d_output=D_OUTPUT,
        d_input=None if tokens else D_INPUT,
        d_vocab=D_VOCAB if tokens else None,
        learned_positions=tokens,
    )
    random = generator(0, "test")
    gain = 1.0 if model.architecture.layer_norm else 0.7  # without LayerNorm scores grow until they magnify rounding
    for name, parameter in model.named_parameters():
        if not name.endswith("_mix"):
            scale = gain * parameter.shape[-2] ** -0.5 if ".W_" in name or name == "W_U" else 0.7
            drawn = scale * torch.randn(parameter.shape, generator=random)
            parameter.copy_(1 + drawn if name.endswith(".w") else drawn)
    return model


def sequences(tokens: bool = False, n: int = 4) -> Tensor:
    random = generator(1, "test")
    if tokens:
        return torch.randint(D_VOCAB, (n, N_POSITIONS), generator=random)
    return torch.randn(n, N_POSITIONS, D_INPUT, generator=random)


def close(actual: Tensor, wanted: Tensor, atol: float = 1e-5) -> bool:
    return actual.shape == wanted.shape and float((actual - wanted).detach().abs().max()) <= atol


# The same function as PyTorch's own layers ---------------------------------------------------------------------

KINDS = {
    "whole": {},
    "one head": {"n_heads": 1},
    "not causal": {"causal": False},
    "no LayerNorm": {"layer_norm": False},
    "attention only": {"mlp": False},
    "attention only, no LayerNorm, not causal": {"mlp": False, "layer_norm": False, "causal": False},
    "wide heads": {"d_head": 12},
    "narrow heads and MLP": {"n_heads": 3, "d_head": 4, "d_mlp": 20},
}


@pytest.mark.parametrize("tokens", [False, True], ids=["vectors", "tokens"])
@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_outputs_and_gradients_are_those_of_a_plain_model(changes, tokens):
    model, inputs = make(tokens, **changes), sequences(tokens)
    plain = Plain(model.architecture, tokens)
    plain.load_state_dict(in_plain_terms(model))
    outputs, wanted = model(inputs), plain(inputs)
    assert close(outputs, wanted)
    outputs.square().mean().backward()
    wanted.square().mean().backward()
    gradients = in_plain_terms(model, lambda parameter: parameter.grad)
    for name, parameter in plain.named_parameters():
        scale = max(1.0, float(parameter.grad.abs().max()))
        assert close(gradients[name], parameter.grad, 1e-5 * scale), name


def test_shorter_sequences_are_those_of_a_plain_model():
    model, inputs = make(), sequences()[:, :5]
    plain = Plain(model.architecture, False)
    plain.load_state_dict(in_plain_terms(model))
    assert close(model(inputs), plain(inputs))


def heads(seed: int, n_heads: int = 2, n_positions: int = 6, d_head: int = 4) -> Tensor:
    return torch.randn(3, n_heads, n_positions, d_head, generator=generator(seed, "heads"))


@pytest.mark.parametrize("causal", [True, False])
def test_softmax_attention_is_scaled_dot_product_attention(causal):
    q, k, v = heads(0), heads(1), heads(2)
    pattern, values = Softmax().attend(q, k, v, mask_of(6, causal), {})
    assert close(pattern @ values, F.scaled_dot_product_attention(q, k, v, is_causal=causal), 1e-6)


def mask_of(n: int, causal: bool) -> Tensor:
    return torch.full((n, n), -torch.inf).triu(1) if causal else torch.zeros(n, n)


# The variants of attention --------------------------------------------------------------------------------------


def kv_shift(a: float, a_before: float, b: float, b_before: float) -> Callable[..., tuple[Tensor, Tensor]]:
    """What the variant does with these mixes in both heads."""
    own = {"key_mix": torch.tensor([a, a_before]).expand(2, 2), "value_mix": torch.tensor([b, b_before]).expand(2, 2)}
    return lambda *heads_and_mask: KVShift().attend(*heads_and_mask, own)


def test_kv_shift_without_shift_is_softmax():
    q, k, v, mask = heads(0), heads(1), heads(2), mask_of(6, True)
    pattern, values = kv_shift(1, 0, 1, 0)(q, k, v, mask)
    wanted, _ = Softmax().attend(q, k, v, mask, {})
    assert torch.equal(pattern, wanted)
    assert torch.equal(values, v)


def test_kv_shift_with_shifted_keys_looks_up_by_what_stood_before():
    """Each key is the one before (the first is 0), each value its own: score by hand, position by position."""
    q, k, v, mask = heads(0), heads(1), heads(2), mask_of(6, True)
    pattern, values = kv_shift(0, 1, 1, 0)(q, k, v, mask)
    for query in range(6):
        scores = [torch.zeros(3, 2)] + [(q[:, :, query] * k[:, :, key - 1]).sum(-1) / 2 for key in range(1, query + 1)]
        wanted = torch.stack(scores, -1).softmax(-1)  # batch head key; √d_head is 2
        assert close(pattern[:, :, query, : query + 1], wanted, 1e-6)
    assert torch.equal(values, v)


def test_kv_shift_makes_one_layer_an_induction_head():
    """Orthogonal tokens c a b … a: the last a attends to b, which stood after the first a."""
    tokens = 30 * torch.eye(4)[[2, 0, 1, 3, 0]].expand(1, 2, 5, 4)
    pattern, _ = kv_shift(0, 1, 1, 0)(tokens, tokens, tokens, mask_of(5, True))
    assert close(pattern[:, :, -1], torch.tensor([0.0, 0, 1, 0, 0]).expand(1, 2, 5))


def test_kv_shift_starts_at_half_or_is_drawn_with_complements():
    """At `half` nothing is drawn, so weights are those that they always were; drawn, a' = 1 − a, as in the paper."""
    task = Retrieval()
    half, drawn = (
        Architecture(n_layers=2, n_heads=3, d_model=12, attention=attention).build(task, generator(0, "init"))
        for attention in ("kv_shift", "kv_shift(start='drawn')")
    )
    assert half.architecture.attention == "kv_shift"
    for name, parameter in half.named_parameters():
        other = drawn.get_parameter(name)
        if name.endswith("_mix"):
            assert (parameter == 0.5).all()
            assert torch.allclose(other.sum(1), torch.ones(3)) and (other > 0).all() and len(other.unique()) == 6
        else:
            assert torch.equal(parameter, other)


def test_kv_shift_blends_keys_and_values_by_hand():
    q, k, v, mask = heads(0), heads(1), heads(2), mask_of(6, True)
    pattern, values = kv_shift(0.7, 0.3, -0.2, 1.5)(q, k, v, mask)
    shifted = F.pad(k, (0, 0, 1, 0))[:, :, :-1], F.pad(v, (0, 0, 1, 0))[:, :, :-1]
    wanted, _ = Softmax().attend(q, 0.7 * k + 0.3 * shifted[0], v, mask, {})
    assert close(pattern, wanted, 1e-6)
    assert close(values, -0.2 * v + 1.5 * shifted[1], 1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_linear_attention_by_hand(causal):
    """z_i = Σ_j (q_i · k_j / √d_head) v_j, over the positions that i may see."""
    q, k, v = heads(0), heads(1), heads(2)
    pattern, values = Linear().attend(q, k, v, mask_of(6, causal), {})
    wanted = torch.zeros_like(v)
    for i in range(6):
        for j in range(i + 1 if causal else 6):
            wanted[:, :, i] += (q[:, :, i] * k[:, :, j]).sum(-1, keepdim=True) / 2 * v[:, :, j]
    assert close(pattern @ values, wanted)


# Reading and replacing activations ------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [False, True], ids=["vectors", "tokens"])
@pytest.mark.parametrize("mlp", [True, False], ids=["mlp", "attention only"])
def test_replacing_every_activation_by_its_own_value_changes_nothing(tokens, mlp):
    model, inputs = make(tokens, mlp=mlp), sequences(tokens)
    plain, (outputs, cache) = model(inputs), model(inputs, cache=True)
    assert torch.equal(outputs, plain)
    assert list(cache) == model.activation_names
    for name, value in cache.items():
        replaced = model(inputs, replace={name: value})
        # Scale and shift are fused with the last norm unless what stands between them is replaced.
        assert close(replaced, outputs) if "normalized" in name else torch.equal(replaced, outputs), name
    assert close(model(inputs, replace=dict(cache)), outputs)


def test_replacing_any_activation_replaces_what_follows():
    """With activations of another sequence: what stands before is as it was, the last one replaced decides."""
    model, inputs, others = make(), sequences(), sequences().flip(0)
    outputs, own = model(inputs, cache=True)
    others_outputs, other = model(others, cache=True)
    for index, name in enumerate(model.activation_names):
        changed, cache = model(inputs, replace={name: other[name]}, cache=True)
        assert torch.equal(cache[name], other[name])
        assert not close(changed, outputs, 1e-3), name
        before = [n for n in model.activation_names[:index] if not n.endswith(("hook_q", "hook_k", "hook_v"))]
        assert all(torch.equal(cache[n], own[n]) for n in before), name
        if name.endswith(("resid_pre", "resid_mid", "resid_post", "hook_embed", "hook_pos_embed", "hook_normalized")):
            assert close(changed, others_outputs, 1e-6), name  # all there is passes through it


@torch.no_grad()
def test_replacing_a_pattern_is_recomputing_by_hand():
    model, inputs = make(), sequences()
    uniform = torch.full((N_POSITIONS, N_POSITIONS), 1 / N_POSITIONS)
    _, cache = model(inputs, cache=True)
    block = model.blocks[1]
    z = uniform @ cache["v", 1].transpose(1, 2)  # batch head position d_head
    resid = cache["resid_pre", 1] + sum(z[:, h] @ block.attn.W_O[h] for h in range(2)) + block.attn.b_O
    resid = resid + block.mlp(block.ln2(resid))
    wanted = model.ln_final(resid) @ model.W_U + model.b_U
    assert close(model(inputs, replace={PATTERN: uniform}), wanted)


def test_a_replacement_may_be_a_function_of_the_actual_value():
    model, inputs = make(), sequences()
    _, cache = model(inputs, cache=True)
    doubled = model(inputs, replace={"blocks.0.hook_mlp_out": lambda actual: 2 * actual})
    assert torch.equal(doubled, model(inputs, replace={"blocks.0.hook_mlp_out": 2 * cache["mlp_out", 0]}))


def test_one_head_can_be_replaced_alone():
    model, inputs = make(), sequences()

    def off(pattern: Tensor) -> Tensor:
        return torch.stack([pattern[:, 0], torch.zeros_like(pattern[:, 1])], 1)

    _, own = model(inputs, cache=True)
    changed, cache = model(inputs, replace={PATTERN: off}, cache=True)
    assert torch.equal(cache["z", 1][:, :, 0], own["z", 1][:, :, 0])
    assert (cache["z", 1][:, :, 1] == 0).all()
    assert not close(changed, model(inputs))


def test_later_functions_see_what_earlier_replacements_did():
    model, inputs = make(), sequences()
    seen = {}

    def look(pattern: Tensor) -> Tensor:
        seen["pattern"] = pattern.detach().clone()
        return pattern

    model(inputs, replace={"blocks.0.hook_resid_post": torch.zeros(()), PATTERN: look})
    _, cache = model(inputs, replace={"blocks.1.hook_resid_pre": torch.zeros(())}, cache=True)
    assert torch.equal(seen["pattern"], cache["pattern", 1])


def test_the_cache_holds_what_is_asked_for_as_replaced():
    model, inputs = make(), sequences()
    _, cache = model(inputs, cache=[PATTERN], replace={PATTERN: torch.zeros(())})
    assert list(cache) == [PATTERN]
    assert cache["pattern", 1].shape == (4, 2, N_POSITIONS, N_POSITIONS)
    assert (cache[PATTERN] == 0).all()


def test_activations_have_transformer_lens_shapes():
    model = make(d_head=12)
    _, cache = model(sequences(), cache=True)
    for name in "qkvz":
        assert cache[name, 0].shape == (4, N_POSITIONS, 2, 12)
    for name in ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post"):
        assert cache[name, 1].shape == (4, N_POSITIONS, 16)
    assert torch.equal(cache["resid_post", 0], cache["resid_pre", 1])
    assert close(cache["resid_pre", 1] + cache["attn_out", 1], cache["resid_mid", 1], 0)


@pytest.mark.parametrize("name", ["blocks.2.attn.hook_pattern", "blocks.0.hook_pattern", "pattern", ""])
def test_unknown_names_are_refused(name):
    with pytest.raises(BadInput, match="there is no activation"):
        make()(sequences(), replace={name: torch.zeros(())})
    with pytest.raises(BadInput, match="there is no activation"):
        make()(sequences(), cache=[name])


def test_activations_of_an_absent_mlp_are_unknown():
    with pytest.raises(BadInput, match="hook_mlp_out"):
        make(mlp=False)(sequences(), replace={"blocks.0.hook_mlp_out": torch.zeros(())})


def test_too_long_a_sequence_is_refused():
    with pytest.raises(BadInput, match="at most 9 positions; got 10"):
        make()(torch.zeros(1, N_POSITIONS + 1, D_INPUT))


def test_many_replacements_in_one_forward_equal_one_at_a_time():
    model, inputs = make(), sequences()
    patterns = torch.rand(6, 2, N_POSITIONS, N_POSITIONS, generator=generator(2, "test")).softmax(-1)

    def outputs(pattern: Tensor) -> Tensor:
        return model(inputs, replace={PATTERN: pattern})

    together = torch.func.vmap(outputs)(patterns)  # replacement batch position d_output
    assert close(together, torch.stack([outputs(pattern) for pattern in patterns]), 1e-6)


def test_a_batch_may_hold_a_replacement_for_each_of_its_sequences():
    model, inputs = make(), sequences()
    patterns = torch.rand(4, 1, N_POSITIONS, N_POSITIONS, generator=generator(2, "test")).softmax(-1)
    together = model(inputs, replace={PATTERN: patterns})
    apart = [model(inputs[i : i + 1], replace={PATTERN: patterns[i : i + 1]}) for i in range(4)]
    assert close(together, torch.cat(apart))


def test_gradients_flow_to_what_replaces_an_activation():
    """Outputs are linear in the last pattern until the MLP reads; the gradient must agree with a finite difference."""
    model, inputs = make().double(), sequences().double()
    pattern = torch.full((N_POSITIONS, N_POSITIONS), 1 / N_POSITIONS, dtype=torch.float64, requires_grad=True)

    def loss(pattern: Tensor) -> Tensor:
        return model(inputs, replace={PATTERN: pattern}).square().mean()

    (gradient,) = torch.autograd.grad(loss(pattern), pattern)
    direction = torch.randn(pattern.shape, generator=generator(3, "test"), dtype=torch.float64)
    with torch.no_grad():
        slope = (loss(pattern + 1e-6 * direction) - loss(pattern - 1e-6 * direction)) / 2e-6
    assert float((gradient * direction).sum()) == pytest.approx(float(slope), rel=1e-6)


def test_reading_off_at_some_positions_is_slicing():
    model, inputs = make(), sequences()
    outputs, cache = model(inputs, at=QUERIES, cache=True)
    assert close(outputs, model(inputs)[:, QUERIES], 1e-6)
    assert close(model(inputs, at=QUERIES), model(inputs)[:, QUERIES], 1e-6)
    assert cache["ln_final.hook_normalized"].shape == (4, 2, 16)
    assert cache["resid_post", 1].shape == (4, N_POSITIONS, 16)


# Compiled, and in bfloat16 --------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method.:DeprecationWarning")  # of inductor's own import
def test_compiled_whole_outputs_gradients_and_replacements_agree():
    """One graph, without a break, for a forward that replaces a pattern by a tensor and an output by a function."""
    model, inputs = make(n_layers=1, n_heads=1), sequences()
    uniform = torch.full((N_POSITIONS, N_POSITIONS), 1 / N_POSITIONS)
    replace = {"blocks.0.attn.hook_pattern": uniform, "blocks.0.hook_mlp_out": torch.tanh}

    def outputs(inputs: Tensor) -> Tensor:
        return model(inputs, replace=replace, at=QUERIES)

    wanted = torch.autograd.grad(outputs(inputs).square().mean(), model.W_E)
    found = torch.compile(outputs, fullgraph=True)(inputs)
    assert close(found, outputs(inputs))
    assert close(torch.autograd.grad(found.square().mean(), model.W_E)[0], wanted[0])


def test_bfloat16_is_near_float32():
    """bfloat16 keeps 8 bits, so each product is off by some 1/256 of its size; outputs here are of size 1 to 5."""
    model, inputs = make(), sequences()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = model(inputs).detach()
    wanted = model(inputs).detach()
    assert low.dtype == torch.bfloat16
    assert float((low.float() - wanted).square().mean() / wanted.square().mean()) < 0.02**2
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


# Initial weights ------------------------------------------------------------------------------------------------


def drawn(seed: int, **changes) -> Transformer:
    return Transformer(
        Architecture(**{"n_layers": 2, "n_heads": 4, "d_model": 64, "d_head": 8, **changes}),
        n_positions=20,
        d_output=40,
        d_input=24,
        learned_positions=True,
        generator=generator(seed, "init"),
    )


@pytest.mark.parametrize("init", ["fan_in", "gpt2"])
def test_initial_weights_are_a_function_of_the_generator(init):
    torch.manual_seed(1)
    first = drawn(0, init=init).state_dict()
    torch.manual_seed(2)
    again, other = drawn(0, init=init).state_dict(), drawn(1, init=init).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(not torch.equal(first[name], other[name]) for name in first if ".W_" in name)


def test_gpt2_weights_have_the_stated_deviations():
    """0.02, and 0.02 / √(2 · 2 layers) = 0.01 where a layer adds to the residual stream."""
    for name, parameter in drawn(0, init="gpt2").named_parameters():
        if "W_" in name:
            wanted = 0.01 if name.endswith(("W_O", "W_out")) else 0.02
            assert float(parameter.detach().std()) == pytest.approx(wanted, rel=0.1), name


def test_fan_in_weights_are_even_in_the_stated_range():
    """±1/√inputs; a uniform variable in ±r has deviation r / √3."""
    inputs = {"W_E": 24, "W_O": 4 * 8, "W_out": 256}
    for name, parameter in drawn(0, init="fan_in").named_parameters():
        if "W_" in name:
            bound = inputs.get(name.rpartition(".")[2], 64) ** -0.5
            assert float(parameter.detach().abs().max()) <= bound, name
            assert float(parameter.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.1), name


@pytest.mark.parametrize("init", ["fan_in", "gpt2"])
def test_biases_start_at_zero_and_norms_at_one(init):
    for name, parameter in drawn(0, init=init).named_parameters():
        last = name.rpartition(".")[2]
        if not last.startswith("W_"):
            assert (parameter == (1 if last == "w" else 0)).all(), name


def test_starting_at_a_layer_goes_on_from_its_stream():
    model = Transformer(
        Architecture(n_layers=3, d_model=16), n_positions=6, d_output=3, d_input=5, generator=generator(0, "x")
    )
    outputs, cache = model(torch.randn(2, 6, 5), cache=True)
    for layer in (1, 2):
        assert torch.equal(model(cache["resid_pre", layer], start_at_layer=layer), outputs)
        again, part = model(cache["resid_pre", layer], start_at_layer=layer, cache=True)
        assert torch.equal(again, outputs) and ("pattern", 0) not in part and "blocks.0.hook_resid_pre" not in part
