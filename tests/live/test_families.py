"""Induction that a small model of transformers has learnt: found, and confirmed by hooks of the model's owner."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from families import data, of_family, pairs, trained

import hopscope

#: Where a family's heads end: what is projected there is all that they say, head by head.
PROJECTION = {
    "Llama": lambda model, layer: model.model.layers[layer].self_attn.o_proj,
}


def without(model, heads, inputs):
    """Logits at the end when some heads, (layer, head), say nothing, by forward hooks alone."""
    hooks = []
    for layer in range(2):
        mask = torch.ones(4, 12)
        mask[[head for i, head in heads if i == layer]] = 0
        part = PROJECTION[model.family](model, layer)
        hooks.append(part.register_forward_pre_hook(lambda _, given, mask=mask: (given[0] * mask.flatten(),)))
    with torch.no_grad():
        logits = model(inputs).logits[:, -1]
    for hook in hooks:
        hook.remove()
    return logits


@pytest.mark.slow
@pytest.mark.parametrize("family", PROJECTION)
def test_a_trained_induction_circuit_is_found_and_confirmed(family):
    pytest.importorskip("transformers")
    model = trained(of_family(family))
    model.family = family
    inputs, targets = data(2048, 99_999)
    found = hopscope.find_circuit(model, inputs, targets, roles=pairs)
    assert found.verdict == "circuit", found.reason
    kinds = {(part.path.layer, part.path.query, part.path.key) for part in found.circuit.paths}
    assert {(0, "answer", "asked"), (1, "query", "answer")} <= kinds
    loss = lambda heads: float(F.cross_entropy(without(model, heads, inputs), targets))  # noqa: E731
    heads = {(part.path.layer, part.path.head) for part in found.circuit.paths}
    outside = {(layer, head) for layer in range(2) for head in range(4)} - heads
    assert loss(outside) < 0.5, "the circuit suffices when all other heads say nothing"
    for layer in range(2):
        assert loss(outside | {one for one in heads if one[0] == layer}) > 1, "and not without one of its layers"
    told = found.program()
    assert [one.share for one in told.trials] == [1.0, 1.0]
