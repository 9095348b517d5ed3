"""The measures of `h_minus_one_heads`: how uneven gates are, whether they separate kinds, what heads are worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.interventions.parts import Part, silenced
from hopscope.models.attention.h_minus_one import HMinusOne
from hopscope.models.base import Replacements
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import NOT_ASKED, Batch

SEQUENCES = {"quick": 32, "cpu": 1024, "paper": 1024}  # fresh ones that every model is asked


@torch.no_grad()
def losses(model: Transformer, batch: Batch, replace: Replacements | None = None) -> Float[Tensor, "batch"]:
    """Mean cross-entropy in nats of each sequence's answers."""
    outputs = model(batch.inputs, at=batch.task.query_positions, replace=replace).float()
    answers = batch.targets.amax(-1)
    each = torch.nn.functional.cross_entropy(outputs.mT, answers, ignore_index=NOT_ASKED, reduction="none")
    return each.sum(1) / (answers != NOT_ASKED).sum(1).clamp(min=1)


@torch.no_grad()
def gates(model: Transformer, batch: Batch, layer: int) -> Float[Tensor, "batch head"]:
    """The share of every expert, averaged over a sequence's positions; expert i leaves out head i."""
    rule, block = model.architecture.rule, model.blocks[layer]
    assert isinstance(rule, HMinusOne)
    stream = model(batch.inputs, cache=[f"blocks.{layer}.hook_resid_pre"])[1][f"blocks.{layer}.hook_resid_pre"]
    own = block.get_submodule("attn.variant")
    assert isinstance(own, torch.nn.ParameterDict)
    return rule.gates(block.get_submodule("ln1")(stream), model.architecture.n_heads, own).mean(1)


def gate_numbers(model: Transformer, batch: Batch) -> dict[str, float]:
    """Three numbers, each for the layer in which it is most extreme.

    `entropy` of gates (nats, the lowest). `auc`: how well a gate separates the kinds (0.5–1, the highest). `apart`: how
    far apart the mean gates of the two kinds are (total variation, 0–1, the highest).
    """
    by_heart = batch.draw["by_heart"][:, 0]
    each = [gates(model, batch, layer) for layer in range(len(model.blocks))]
    return {
        "entropy": min(float(-(g * g.clamp(min=1e-12).log()).sum(1).mean()) for g in each),
        "auc": max(area(g[:, head], by_heart) for g in each for head in range(g.shape[1])),
        "apart": max(float((g[by_heart].mean(0) - g[~by_heart].mean(0)).abs().sum() / 2) for g in each),
    }


def area(score: Float[Tensor, "sample"], positive: Bool[Tensor, "sample"]) -> float:
    """Area under the ROC curve of a score for two classes, in either direction: 0.5 to 1; ties count half."""
    one, other = score[positive], score[~positive]
    above = (one[:, None] > other).double().mean() + (one[:, None] == other).double().mean() / 2
    return max(float(above), 1 - float(above))


def gate_means(model: Transformer, batch: Batch) -> Iterator[dict[str, Any]]:
    """Mean gates by layer, head and kind."""
    by_heart = batch.draw["by_heart"][:, 0]
    for layer in range(len(model.blocks)):
        found = gates(model, batch, layer)
        for head in range(found.shape[1]):
            for kind, rows in (("in context", ~by_heart), ("by heart", by_heart)):
                yield {"layer": layer, "head": head, "of": kind, "share": float(found[rows, head].mean())}


def dropping(model: Transformer, batch: Batch) -> dict[str, float]:
    """The cost in nats of silencing one head: a random one, and the one with the least weight. Means over layers.

    In each sequence the head with the least weight is the one that the expert with the greatest share leaves out.
    """
    whole, random, least = losses(model, batch), [], []
    for layer in range(len(model.blocks)):
        parts = [Part(layer, head) for head in range(model.architecture.n_heads)]
        costs = torch.stack([losses(model, batch, silenced([part])) - whole for part in parts], 1)
        random.append(costs.mean())
        least.append(costs.gather(1, gates(model, batch, layer).argmax(1, keepdim=True)).mean())
    return {"cost_random": float(torch.stack(random).mean()), "cost_least": float(torch.stack(least).mean())}
