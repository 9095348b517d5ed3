"""Ablation of the heads that copy labels of the query's class (Halawi et al., section 4)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from hopscope.interventions.parts import Part, silenced
from hopscope.measures.base import observe
from hopscope.models.base import Model, Replacements
from hopscope.tasks.base import Batch
from hopscope.tasks.item_labels import ItemLabels


@torch.no_grad()
def accuracy(model: Model, batch: Batch, replace: Replacements | None = None) -> float:
    """Share (0–1) of sequences whose query gets the true label of its class."""
    outputs = model(batch.inputs, at=batch.task.query_positions, replace=replace)
    return float(batch.task.correct(outputs, batch).float().mean())


@torch.no_grad()
def by_layer(model: Model, batch: Batch) -> list[float]:
    """As `accuracy`, for answers read before the first layer and after each layer (logit lens)."""
    layers = range(model.architecture.n_layers)
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{layer}.hook_resid_post" for layer in layers)]
    cache = model(batch.inputs, cache=names)[1]
    read = [model.read_off(cache[name], batch.task.query_positions) for name in names]
    return [float(batch.task.correct(outputs, batch).float().mean()) for outputs in read]


def critical_layer(true: Sequence[float], false: Sequence[float]) -> int | None:
    """The number of layers after which half of the final gap is reached; None if there is no final gap."""
    gaps = [a - b for a, b in zip(true, false, strict=True)]
    return next((number for number, gap in enumerate(gaps) if gap >= gaps[-1] / 2), None) if gaps[-1] > 0 else None


def scores(model: Model, batch: Batch) -> dict[Part, float]:
    """Every head's attention from the query to labels of its class, minus the mean attention to another class's."""
    task, among, found = batch.task, batch.roles, {}
    assert isinstance(task, ItemLabels)
    for name, pattern in observe(model, batch).patterns():
        same, other = (on(pattern, among.pairs("query", "value[1]", kind)) for kind in ("same", "other"))
        part = Part.parse(name)
        assert part is not None
        found[part] = float((same - other / (task.n_kinds - 1)).mean())
    return found


def on(pattern: Tensor, where: Tensor) -> Tensor:
    """The last position's attention on a mask, by sequence."""
    return (pattern * where)[:, -1].sum(-1)


def highest(scored: dict[Part, float], count: int) -> list[Part]:
    """The heads with the highest scores."""
    return sorted(scored, key=scored.__getitem__, reverse=True)[:count]


def other_sets(scored: dict[Part, float], chosen: Sequence[Part]) -> list[list[Part]]:
    """Every set of as many other heads."""
    rest = sorted(set(scored) - set(chosen))
    return [list(some) for some in itertools.combinations(rest, len(chosen))]


def quiet_attention(layers: Iterable[int]) -> Replacements:
    """Replacements under which heads of these layers write nothing."""
    return silenced(Part(layer) for layer in layers)


def quiet_mlps(layers: Iterable[int]) -> Replacements:
    """Replacements under which MLPs of these layers write nothing."""
    return {f"blocks.{layer}.hook_mlp_out": torch.zeros(1) for layer in layers}


def patterns_of_others(model: Model) -> Replacements:
    """Replacements under which every layer attends as in another sequence: the negative control."""
    layers = range(model.architecture.n_layers)
    return {f"blocks.{layer}.attn.hook_pattern": lambda pattern: pattern.roll(1, 0) for layer in layers}
