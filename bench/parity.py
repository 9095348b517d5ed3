"""Whether TransformerLens computes what hopscope computes, given the same weights; run in the peers' environment.

    PYTHONPATH=. .venv-peers/bin/python -m bench.parity

Prints a line of JSON: for every dtype and case, the greatest difference of the outputs and of every activation that
both have, as a fraction of the greatest value where that exceeds 1.
"""

from __future__ import annotations

import json

import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig

from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture, Cache, Transformer

N_POSITIONS, D_INPUT, D_VOCAB, D_OUTPUT = 11, 6, 17, 5

CASES = {
    f"{inputs}-{heads}-heads-{kind}": (inputs, heads, changes)
    for inputs in ("vectors", "tokens")
    for heads in (1, 4)
    for kind, changes in {
        "whole": {},
        "attention-only": {"mlp": False},
        "not-causal": {"causal": False},
        "no-layernorm": {"layer_norm": False},
        "wide-heads": {"d_head": 24},
    }.items()
}


@torch.no_grad()
def ours(inputs: str, n_heads: int, changes: dict) -> Transformer:
    architecture = Architecture(
        **{"n_layers": 3, "n_heads": n_heads, "d_model": 32, "mlp": True, "positions": None, **changes}
    )
    vectors = inputs == "vectors"
    model = Transformer(
        architecture,
        n_positions=N_POSITIONS,
        d_output=D_OUTPUT,
        d_input=D_INPUT if vectors else None,
        d_vocab=None if vectors else D_VOCAB,
        learned_positions=not vectors,
    )
    random = generator(0, "parity")
    gain = 1.0 if architecture.layer_norm else 0.7  # without LayerNorm scores grow until they magnify rounding
    for name, parameter in model.named_parameters():
        scale = gain * parameter.shape[-2] ** -0.5 if ".W_" in name else 0.8  # so large that patterns are far from even
        drawn = scale * torch.randn(parameter.shape, generator=random)
        parameter.copy_(1 + drawn if name.endswith(".w") else drawn)
    return model


def theirs(model: Transformer) -> HookedTransformer:
    """A HookedTransformer with our weights: the names are the same, but that q, k, v are one parameter here."""
    a = model.architecture
    config = HookedTransformerConfig(
        n_layers=a.n_layers,
        d_model=a.d_model,
        n_ctx=N_POSITIONS,
        n_heads=a.n_heads,
        d_head=a.head_width,
        d_mlp=a.mlp_width,
        attn_only=not a.mlp,
        d_vocab=D_VOCAB,
        d_vocab_out=D_OUTPUT,
        act_fn="gelu_new",
        normalization_type="LN" if a.layer_norm else None,
        attention_dir="causal" if a.causal else "bidirectional",
        default_prepend_bos=False,
        device="cpu",
        seed=0,
        dtype=model.W_U.dtype,
    )
    hooked = HookedTransformer(config)
    state = hooked.state_dict()
    weights = {
        f"{prefix}{name}": value
        for key, tensor in model.state_dict().items()
        for prefix, name, value in split(key, tensor)
    }
    unembed = {"W_U": "unembed.W_U", "b_U": "unembed.b_U", "W_E": "embed.W_E", "W_pos": "pos_embed.W_pos"}
    weights = {unembed.get(name, name): value for name, value in weights.items() if name != "b_E"}
    if model.b_E is not None:
        weights.pop("embed.W_E")
    unknown = set(weights) - set(state)
    assert not unknown, f"TransformerLens has no {sorted(unknown)}"
    hooked.load_state_dict({**state, **weights})
    return hooked


def split(name: str, tensor: torch.Tensor) -> list[tuple[str, str, torch.Tensor]]:
    """(prefix, name, value) of each of TransformerLens' parameters that one of ours stands for."""
    prefix, dot, last = name.rpartition(".")
    if last in ("W_QKV", "b_QKV"):
        return [(prefix + dot, f"{last[0]}_{part}", value) for part, value in zip("QKV", tensor, strict=True)]
    return [(prefix + dot, last, tensor)]


@torch.no_grad()
def differences(dtype: torch.dtype, inputs: str, n_heads: int, changes: dict) -> dict[str, float]:
    model = ours(inputs, n_heads, changes).to(dtype)
    random = generator(1, "parity")
    if inputs == "vectors":
        batch = torch.randn(7, N_POSITIONS, D_INPUT, generator=random).to(dtype)
        outputs, cache = model(batch, cache=True)
        wanted, hooked = theirs(model).run_with_cache(cache["hook_embed"], start_at_layer=0)
    else:
        batch = torch.randint(D_VOCAB, (7, N_POSITIONS), generator=random)
        outputs, cache = model(batch, cache=True)
        wanted, hooked = theirs(model).run_with_cache(batch)
    check_sharp(model, cache)
    found = {"outputs": greatest(outputs, wanted)}
    for name in model.activation_names:
        if name in hooked:  # a run that starts behind the embedding has none
            found[name] = greatest(cache[name], hooked[name])
    return found


def check_sharp(model: Transformer, cache: Cache) -> None:
    """Patterns must differ from even ones, or a difference in the scores would not be seen."""
    even = torch.ones(N_POSITIONS, N_POSITIONS)
    even = even.tril() if model.architecture.causal else even
    even = (even / even.sum(-1, keepdim=True)).amax(-1).mean()
    for layer in range(model.architecture.n_layers):
        assert cache["pattern", layer].amax(-1).mean() > 1.2 * even, f"the patterns of layer {layer} are nearly even"


def greatest(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1))


def main() -> None:
    dtypes = {"float32": torch.float32, "float64": torch.float64}
    found = {d: {name: differences(dtype, *case) for name, case in CASES.items()} for d, dtype in dtypes.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
