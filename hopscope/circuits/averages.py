"""Mean ablation: a circuit as computed, while every other head outputs its average at each position.

A null pattern can do a circuit's own work: ablating a head that attends evenly changes nothing if the null pattern is
even too, and at position 0 of a causal model every pattern is the same. Replacing a head's output by its average has
neither problem (mean ablation; Wang et al., 2022). So a circuit must suffice under both.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.changes import Kept
from hopscope.circuits.evaluator import OUTPUT, Evaluator
from hopscope.circuits.units import Ground, in_layer, row_of
from hopscope.models.base import Model

Outputs = Float[Tensor, "batch position head d_head"]


def has_averages(model: Model) -> bool:
    """Whether a model lets the outputs of single heads be replaced; patterns alone are not enough."""
    return {f"blocks.{layer}.{OUTPUT}" for layer in range(model.architecture.n_layers)} <= {*model.activation_names}


def averages(evaluator: Evaluator) -> list[Float[Tensor, "position head d_head"]]:
    """Every head's mean output over some sequences, at each position; one tensor per layer."""
    names = [f"blocks.{layer}.{OUTPUT}" for layer in evaluator.layers]
    sums: list[list[Tensor]] = [[] for _ in names]
    for part in evaluator.parts:
        with torch.no_grad():
            _, cache = part.model(part.batch.inputs, cache=names, at=part.batch.task.query_positions)
        part.count(1)
        for said, name in zip(sums, names, strict=True):
            said.append(cache[name].sum(0))
    return [torch.stack(said).sum(0) / len(evaluator.batch) for said in sums]


@dataclass(frozen=True)
class AtAverage(Kept):
    """Units stay as computed; at positions where a head has no unit, its output is its average at that position.

    Attributes:
        means: the mean outputs of the heads, for each layer (`averages`).
    """

    means: Sequence[Float[Tensor, "position head d_head"]] = ()

    def key(self, layer: int) -> Hashable:
        return type(self), id(self.means), super().key(layer) if in_layer(layer, self.units) else None

    def output(self, layer: int, actual: Outputs, ground: Ground) -> Outputs:
        """The heads' outputs at positions where they have units, and their means elsewhere."""
        live = torch.zeros(actual.shape[:3], dtype=torch.bool, device=actual.device)
        for row in {row_of(unit) for unit in self.units if unit.layer == layer}:
            live[:, :, row.head] |= ground.holders(row.query)
        return torch.where(live[..., None], actual, self.means[layer].to(actual.dtype))
