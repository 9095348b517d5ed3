"""What a measure gets, and what it states: an `Observation` of a model on a batch, a range, and needs.

A measure is a function of an `Observation` that returns numbers by name. All measures of an observation share its
forward passes. A measure's file states in `RANGE` the lowest and highest possible value, and in `NEEDS` what it needs
of a task and a model, if anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.core import catalogue
from hopscope.core.settings import BadInput
from hopscope.interventions.patterns import visible
from hopscope.models.base import Cache, Model, Replacements, Shape
from hopscope.problem.roles import Relation
from hopscope.tasks.base import Batch, Task
from hopscope.tasks.base_regression import RegressionTask


class Observation:
    """A model on a batch. Forward passes run when they are first needed, without gradients.

    With `replace`, these activations are replaced.
    """

    def __init__(self, model: Model, batch: Batch, replace: Replacements | None = None):
        self.model = model
        self.batch = batch
        self.replace = replace

    @property
    def task(self) -> Task:
        """The task that the batch was drawn from."""
        return self.batch.task

    @cached_property
    def outputs(self) -> Float[Tensor, "batch query output"]:
        """The model's outputs at the query positions."""
        with torch.no_grad():
            return self.model(self.batch.inputs, at=self.task.query_positions, replace=self.replace)

    @cached_property
    def cache(self) -> Cache:
        """The attention patterns of all layers."""
        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(self.model.architecture.n_layers)]
        with torch.no_grad():
            return self.model(self.batch.inputs, cache=names, replace=self.replace)[1]

    @cached_property
    def activations(self) -> Cache:
        """Every activation, by name: `seen.activations["resid_post", 2]`, or its full name."""
        with torch.no_grad():
            return self.model(self.batch.inputs, cache=True, replace=self.replace)[1]

    def patterns(self) -> list[tuple[str, Float[Tensor, "batch query key"]]]:
        """The pattern of every head with its short name: `L0H0`, `L0H1`, …"""
        patterns = []
        for layer in range(self.model.architecture.n_layers):
            for head, pattern in enumerate(self.cache["pattern", layer].unbind(1)):
                patterns.append((f"L{layer}H{head}", pattern))
        return patterns

    def visible(self, query: str, key: str, relation: Relation) -> Bool[Tensor, "batch query key"]:
        """The pairs of positions of two roles, of which the model lets the first see the second."""
        pairs = self.batch.roles.pairs(query, key, relation)
        return pairs & visible(pairs.shape[-1], self.model.architecture.causal, pairs.device)

    def attention_on(self, wanted: Bool[Tensor, "batch query key"]) -> dict[str, float]:
        """Mean attention (0–1) of every head to these keys, over the queries that have one; empty if none has."""
        queries, entries = int(wanted.any(-1).sum()), wanted.nonzero(as_tuple=True)
        return {name: float(p[entries].sum() / queries) for name, p in self.patterns()} if queries else {}


def observe(model: Model, batch: Batch) -> Observation:
    """An observation of a model on a batch, for any measure: `hop_loss(observe(model, batch))`."""
    return Observation(model, batch)


@dataclass(frozen=True)
class Need:
    """A condition on task and model that a measure needs.

    Attributes:
        words: the condition as it follows "needs".
        met: whether a task and a model's shape meet it.
    """

    words: str
    met: Callable[[Task, Shape], bool]


tokens = Need("a task of tokens", lambda task, shape: task.d_vocab is not None)
vectors = Need("a task of vectors", lambda task, shape: task.d_input is not None)
symbols = Need("answers that name symbols", lambda task, shape: not isinstance(task, RegressionTask))
attention = Need("a model with attention", lambda task, shape: shape.n_layers * shape.n_heads > 0)
several_positions = Need("sequences of several positions", lambda task, shape: task.n_positions > 1)
residual_stream = Need("a model with a residual stream", lambda task, shape: shape.d_model > 0)


def roles(*names: str) -> Need:
    """The need of a task in which these roles occur."""
    return Need(f"a task with the roles {', '.join(names)}", lambda task, _: set(names) <= set(roles_of(task)))


@lru_cache(maxsize=1024)  # a draw takes a hundred times as long as the other checks of a configuration
def roles_of(task: Task) -> tuple[str, ...]:
    """The names of the roles of a task's positions."""
    return tuple(task.sample(1, 0).roles.names)


def unmet(name: str, task: Task, shape: Shape) -> str | None:
    """The first need that is not met, in words; None if the measure applies. Raises BadInput for an unknown measure."""
    needs: tuple[Need, ...] = getattr(catalogue.module("measures", name), "NEEDS", ())
    return next((need.words for need in needs if not need.met(task, shape)), None)


def numbers_of(name: str, seen: Observation) -> dict[str, float]:
    """A measure's numbers on an observation, without those that it does not determine (NaN).

    Raises BadInput if it returns anything but finite numbers by name.
    """
    found = catalogue.find("measures", name)(seen)
    if not isinstance(found, dict) or not all(isinstance(v, int | float) and not math.isinf(v) for v in found.values()):
        raise BadInput(f"measure {name} must return finite numbers by name, as {{'score': 0.5}}; got {found!r:.60}")
    return {each: value for each, value in found.items() if not math.isnan(value)}


def check_needs(names: list[str], task: Task, shape: Shape) -> None:
    """Raise BadInput for a measure whose needs the task or the model does not meet."""
    for name in names:
        if lacking := unmet(name, task, shape):
            raise BadInput(f"measure {name} needs {lacking}; leave it out for {task.name()} and {shape.name()}")
