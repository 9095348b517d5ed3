"""The measures of `kv_shift`: a model's blends, and its accuracy with learnt or other blends."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch

from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Batch

#: Fresh sequences that every model is asked, by scale.
SEQUENCES = {"quick": 32, "cpu": 256, "paper": 1000}


@torch.no_grad()
def accuracy(model: Transformer, batch: Batch) -> float:
    """Share (0–1) of the answers that are right."""
    outputs = model(batch.inputs, at=batch.task.query_positions)
    return float(batch.task.correct(outputs, batch).float().mean())


def mixes(model: Transformer) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each layer's blends of keys and of values, (head, 2): the weights of this position and of the one before."""
    for block in model.blocks:
        attention = block.get_submodule("attn.variant")
        yield attention.get_parameter("key_mix"), attention.get_parameter("value_mix")


def blends(model: Transformer) -> dict[str, float]:
    """The first head's blends: a and a' of keys, b and b' of values.

    `keys_before` is the previous token's share of keys, and `values_here` the token's own share of values (0–1, by
    absolute weights).
    """
    keys, values = next(mixes(model))
    (a, before), (here, b_before) = keys[0].tolist(), values[0].tolist()
    return {
        "a": a,
        "a_before": before,
        "b": here,
        "b_before": b_before,
        "keys_before": abs(before) / (abs(a) + abs(before)),
        "values_here": abs(here) / (abs(here) + abs(b_before)),
    }


@torch.no_grad()
def with_blends(model: Transformer, batch: Batch, keys: tuple[float, float], values: tuple[float, float]) -> float:
    """Accuracy with every head's blends in these proportions but with their learnt sums; the model stays as it is."""
    changed = copy.deepcopy(model)
    for own, others in mixes(changed):
        own.copy_(own.sum(1, keepdim=True) * torch.tensor([keys]))
        others.copy_(others.sum(1, keepdim=True) * torch.tensor([values]))
    return accuracy(changed, batch)
