"""Induction that a small model of each family has learnt: found, and confirmed by hooks of the model's owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from families import FAMILIES, Nano, again, of_family, pairs, trained
from torch import nn

import hopscope
from hopscope.circuits.discovery import Discovery

SMALL = Discovery(discovery=48, selection=64, report=192)
LARGE = Discovery(discovery=192, selection=256, report=512)
HEADS, D_HEAD = 4, 12
#: Where a family's heads end, by layer: what is projected there is all that they say, head by head.
PROJECTIONS: dict[str, Callable[[nn.Module], list[nn.Module]]] = {
    "GPT-NeoX": lambda model: [layer.attention.dense for layer in model.gpt_neox.layers],
    "GPT-2": lambda model: [layer.attn.c_proj for layer in model.transformer.h],
    "nanoGPT": lambda model: [layer.project for layer in model.layers],
}
#: What four families need to learn this task in some hundred steps: first weights as large as so few inputs ask for
#: (norms behind attention drown what the embedding says), scores divided for the width of these heads, no dropout.
#: Their heads share the work, which takes longer training, and more rows to tell apart.
WIDE = {"initializer_range": 0.15}
TURNS = {"rope_type": "default", "rope_theta": 100.0}  # for 13 places, not for thousands
OWN: dict[str, dict[str, object]] = {
    "Gemma 2": {**WIDE, "query_pre_attn_scalar": D_HEAD},
    "Gemma 3": {
        **WIDE,
        "query_pre_attn_scalar": D_HEAD,
        "rope_parameters": {"sliding_attention": TURNS, "full_attention": TURNS},
    },
    "OLMo 2": {"initializer_range": 0.2, "rope_parameters": TURNS},
    "GPT-2": {"initializer_range": 0.2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}
#: Losses until which a family is trained: norms of queries and keys bound this one's scores, and sharpen late.
LONGER = {"OLMo 2": 0.0001}


def of(family: str) -> nn.Module:
    """Windows are as long as hides the first token, and no answer, from the query."""
    if family == "nanoGPT":
        return Nano()
    windowed = {"sliding_window": 11} if "sliding_window" in FAMILIES[family][2] else {}
    return of_family(family, **OWN.get(family, {}), **windowed)


def without(model, projections, heads, inputs):
    """Logits at the end when some heads, (layer, head), say what they say on average, by forward hooks alone."""
    hooks = []
    for layer, part in enumerate(projections):
        mask = torch.ones(HEADS, D_HEAD)
        mask[[head for i, head in heads if i == layer]] = 0
        kept = mask.flatten()
        idle = lambda _, given, kept=kept: (given[0] * kept + given[0].mean(0) * (1 - kept),)  # noqa: E731
        hooks.append(part.register_forward_pre_hook(idle))
    with torch.no_grad():
        outputs = model(inputs)
    for hook in hooks:
        hook.remove()
    return getattr(outputs, "logits", outputs)[:, -1]


@pytest.mark.slow
@pytest.mark.parametrize("family", [*(family for family in FAMILIES if family != "gpt-oss"), "nanoGPT"])
def test_a_trained_induction_circuit_is_found_and_confirmed(family):
    pytest.importorskip("transformers")
    below, sizes = (LONGER.get(family, 0.001), LARGE) if family in OWN else (0.01, SMALL)
    model = trained(of(family), below)
    projections = PROJECTIONS.get(family, lambda model: [layer.self_attn.o_proj for layer in model.model.layers])(model)
    inputs, targets = again(2048, 99_999)
    targets = targets[:, -1]
    with torch.no_grad():
        known, seen = without(model, projections, (), inputs[:64]), hopscope.wrap(model)(inputs[:64])[:, -1]
    assert (seen - known).abs().max() <= 1e-5 * max(1, known.abs().max())
    found = hopscope.find_circuit(model, inputs, targets, roles=pairs, settings=sizes)
    assert found.verdict == "circuit", found.reason
    kinds = {(part.path.layer, part.path.query, part.path.key) for part in found.circuit.paths}
    assert {(0, "answer", "asked"), (1, "query", "answer")} <= kinds
    loss = lambda heads: float(F.cross_entropy(without(model, projections, heads, inputs), targets))  # noqa: E731
    heads = {(part.path.layer, part.path.head) for part in found.circuit.paths}
    outside = {(layer, head) for layer in range(2) for head in range(HEADS)} - heads
    assert loss(outside) < 0.5, "the circuit suffices when all other heads are at their average"
    for layer in range(2):
        assert loss(outside | {one for one in heads if one[0] == layer}) > 1, "and not without one of its layers"
