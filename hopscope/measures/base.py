"""What a measure sees: a model, a batch, and the one forward pass that all measures of them share."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.models.base import Cache, Model, Replacements
from hopscope.tasks.base import Batch, Task


class Observation:
    """A model seen on a batch. The forward pass is made when first needed, without gradients.

    A measure is a function of an observation that returns numbers by name. Its file states in `RANGE` the lowest
    and highest value that they can take. With `replace`, it is the model with these activations replaced that is seen.
    """

    def __init__(self, model: Model, batch: Batch, replace: Replacements | None = None):
        self.model = model
        self.batch = batch
        self.replace = replace

    @property
    def task(self) -> Task:
        """What the batch was drawn from."""
        return self.batch.task

    @cached_property
    def outputs(self) -> Float[Tensor, "batch query output"]:
        """The model's answers at the query positions."""
        with torch.no_grad():
            return self.model(self.batch.inputs, at=self.task.query_positions, replace=self.replace)

    @cached_property
    def cache(self) -> Cache:
        """The pattern of every layer."""
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(self.model.architecture.n_layers)]
        with torch.no_grad():
            return self.model(self.batch.inputs, cache=names, replace=self.replace)[1]

    def patterns(self) -> list[tuple[str, Float[Tensor, "batch query key"]]]:
        """The pattern of every head with its short name: `L0H0`, `L0H1`, …"""
        found = []
        for layer in range(self.model.architecture.n_layers):
            for head, pattern in enumerate(self.cache["pattern", layer].unbind(1)):
                found.append((f"L{layer}H{head}", pattern))
        return found


def observe(model: Model, batch: Batch) -> Observation:
    """A model seen on a batch, for any measure: `hop_loss(observe(model, batch))`."""
    return Observation(model, batch)
