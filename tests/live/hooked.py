"""Circuits of HookedTransformers, found in the environment of the peers (`make peers`); prints a line of JSON.

    PYTHONPATH=. .venv-peers/bin/python tests/live/hooked.py

One model is an induction circuit written by hand: a previous-token head copies each token one place on, and the head
above it finds the place to which the query's own was copied. The others are that model half destroyed, and untrained.
"""

from __future__ import annotations

import json
import sys
import warnings

import torch
import torch.nn.functional as F
from transformer_lens import HookedTransformer, HookedTransformerConfig

import hopscope

V, N, SHARP = 12, 9, 30.0
WIDTH = V + N + V + V  # token, place, the token before, the answer
TOKEN, PLACE, BEFORE, ANSWER = (slice(a, b) for a, b in ((0, V), (V, V + N), (V + N, 2 * V + N), (2 * V + N, WIDTH)))


def empty(**changes) -> HookedTransformer:
    shape = {"n_layers": 2, "n_heads": 1, "d_model": WIDTH, "d_head": WIDTH, "n_ctx": N, "d_vocab": V}
    kind = {"attn_only": True, "normalization_type": None, "default_prepend_bos": False, "device": "cpu", "seed": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return HookedTransformer(HookedTransformerConfig(**{**shape, **kind, **changes}))


@torch.no_grad()
def induction(dtype: torch.dtype = torch.float32, **changes) -> HookedTransformer:
    model = empty(dtype=dtype, **changes)
    for parameter in model.parameters():
        parameter.zero_()
    model.embed.W_E[:, TOKEN] = torch.eye(V, dtype=dtype)
    model.pos_embed.W_pos[:, PLACE] = torch.eye(N, dtype=dtype)
    model.unembed.W_U[ANSWER] = torch.eye(V, dtype=dtype) * 12
    first, second = (block.attn for block in model.blocks)
    scale = SHARP * WIDTH**0.5
    keys, values = ("_W_K", "_W_V") if "n_key_value_heads" in changes else ("W_K", "W_V")
    first.W_Q[0, PLACE, :N] = scale * torch.eye(N, dtype=dtype).roll(-1, 1).tril(-1)
    getattr(first, keys)[0, PLACE, :N] = torch.eye(N, dtype=dtype)
    getattr(first, values)[0, TOKEN, :V] = torch.eye(V, dtype=dtype)
    first.W_O[0, :V, BEFORE] = torch.eye(V, dtype=dtype)
    second.W_Q[0, TOKEN, :V] = scale * torch.eye(V, dtype=dtype)
    getattr(second, keys)[0, BEFORE, :V] = torch.eye(V, dtype=dtype)
    getattr(second, values)[0, TOKEN, :V] = torch.eye(V, dtype=dtype)
    second.W_O[0, :V, ANSWER] = torch.eye(V, dtype=dtype)
    return model


def data(rows: int = 1024) -> tuple[torch.Tensor, torch.Tensor]:
    """Different tokens in a row, the first of them never asked for; then one of them again."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.rand(rows, V, generator=random).argsort(-1)[:, : N - 1]
    place = torch.randint(1, N - 2, (rows, 1), generator=random)
    return torch.cat([tokens, tokens.gather(1, place)], 1), tokens.gather(1, place + 1)[:, 0]


def pairs(row: list[int]) -> dict[str, int]:
    return {"query": -1, "asked": row.index(row[-1]), "answer": row.index(row[-1]) + 1}


def hooks(model: HookedTransformer) -> int:
    return sum(len(point.fwd_hooks) + len(point.bwd_hooks) for point in model.hook_dict.values())


def found(model: HookedTransformer, **given) -> dict:
    inputs, targets = data()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    circuit = hopscope.find_circuit(model, inputs, targets, **given)
    return {
        "verdict": circuit.verdict,
        "reason": circuit.reason,
        "paths": [str(path.path) for path in circuit.circuit.paths],
        "words": circuit.words,
        "svg": "<svg" in circuit._repr_html_(),
        "losses": {name: loss.mean for name, loss in circuit.circuit.losses.items()},
        "hooks": hooks(model),
        "training": model.training,
        "unchanged": all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
        and torch.equal(state, torch.get_rng_state())
        and all(parameter.grad is None for parameter in model.parameters()),
    }


def own_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One that vmap cannot batch: it looks at values."""
    assert float(outputs.abs().sum()) >= 0
    return F.nll_loss(outputs.log_softmax(-1), targets)


def main() -> None:
    watched, torn = induction(), induction()
    seen: list[int] = []
    watched.add_hook("blocks.0.hook_resid_pre", lambda actual, hook: seen.append(len(actual)))
    with torch.no_grad():
        torn.blocks[0].attn.W_O.zero_()
    report = {
        "relations": found(induction()),
        "roles": found(induction().train(), roles=pairs),
        "own loss": found(induction(), roles=pairs, loss=own_loss),
        "float64": found(induction(torch.float64), roles=pairs),
        "bfloat16": found(induction(torch.bfloat16), roles=pairs),
        "watched": found(watched, roles=pairs),
        "grouped keys": found(induction(n_heads=2, n_key_value_heads=1), roles=pairs),
        "windows": found(induction(use_local_attn=True, window_size=N, attn_types=["local"] * 2), roles=pairs),
        "torn": found(torn, roles=pairs),
        "untrained": found(empty(normalization_type="LN", init_weights=True)),
    }
    report["watched"]["seen"] = len(seen) > 0
    print(json.dumps(report))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
