"""An engine that runs a model's blocks on some sequences, under many interventions.

- What nobody reads is left out: queries and keys of layers whose patterns are set whatever they are, and the last layer
  where no answer is read off (`hopscope.models.base_sparing`).
- What the model as it is has told already is not computed again (`AsItIs`), nor what interventions have in common
  (`hopscope.interventions.branches`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.models.base import Cache, Model, Replacement, Replacements
from hopscope.models.transformer import Transformer
from hopscope.tasks.base import Batch

STREAM, PATTERN = "hook_resid_pre", "attn.hook_pattern"
#: Sequences in one forward pass, at most.
TILE = 512
#: Bytes of a layer's widest activation in one pass: enough to keep two cores busy, few enough to stay in their caches.
CACHED = 2**22


def tile_for(model: Model, batch: Batch) -> int:
    """Sequences in one forward pass of a model."""
    shape = model.architecture
    width = shape.d_model * (4 if shape.mlp else 1)
    return max(1, min(TILE, CACHED // max(1, 4 * width * batch.inputs.shape[1])))


@dataclass(frozen=True)
class AsItIs:
    """A pass of the model as it is.

    Attributes:
        outputs: its answers.
        streams: the residual stream before every layer; none of a model that has to begin at the bottom.
        patterns: every layer's.
    """

    outputs: Float[Tensor, "batch query output"]
    streams: list[Float[Tensor, "batch position d_model"]]
    patterns: list[Float[Tensor, "batch head query key"]]

    def part(self, some: slice) -> AsItIs:
        """The same of some sequences alone."""
        return AsItIs(self.outputs[some], [x[some] for x in self.streams], [x[some] for x in self.patterns])


class Intervention:
    """What becomes of a model's activations, layer by layer."""

    @property
    def first_layer(self) -> float:
        """The first layer that may change."""
        return 0

    def key(self, layer: int) -> Hashable:
        """None where a layer stays as it is, else a value: interventions of equal keys do the same to a layer.

        What such interventions have in common is computed once. By default one is like no other.
        """
        return None if layer < self.first_layer else id(self)


C = TypeVar("C", bound=Intervention)


class Engine(ABC, Generic[C]):
    """A model on a set of sequences.

    Args:
        model: whose activations are changed.
        batch: the sequences, with a task whose roles are known.
        tile: sequences per forward pass, all changes together; by default as many as stay in a processor's cache.
    """

    def __init__(self, model: Model, batch: Batch, tile: int | None = None):
        self.model, self.batch = model, batch
        self.tile = tile_for(model, batch) if tile is None else tile
        self.forwards = 0.0  # forward passes over the whole set, those of its parts by their share; for the accounts
        self.counted: Callable[[float], None] = lambda passes: None  # a part tells the whole

    @abstractmethod
    def changed(self, changes: Sequence[C], start: int = 0, stop: int | None = None) -> dict[str, Replacement]:
        """What becomes of some layers' activations, with a change for each copy of the sequences.

        Replacements that do not look at a pattern are `Blind`: it then need not be computed.
        """

    @cached_property
    def as_it_is(self) -> AsItIs:
        """The model as it is, with all that later passes need of it."""
        names = {short: [f"blocks.{layer}.{short}" for layer in self.layers] for short in (STREAM, PATTERN)}
        read = names[PATTERN] + (names[STREAM] if self.model.starts_at_layers else [])
        with torch.no_grad():
            outputs, cache = self.model(self.batch.inputs, cache=read, at=self.batch.task.query_positions)
        self.count(1)
        return AsItIs(outputs, *([cache[name] for name in names[short] if name in cache] for short in names))

    @property
    def is_sparing(self) -> bool:
        """Whether blocks are run without what nothing reads."""
        return isinstance(self.model, Transformer) and type(self.model).forward is Transformer.forward

    @property
    def known(self) -> AsItIs | None:
        """The same, if it has been run."""
        return self.__dict__.get("as_it_is")

    def count(self, passes: float) -> None:
        """Note forward passes over its sequences, in the accounts of what it is a part of, too."""
        self.forwards += passes
        self.counted(passes)

    def through(
        self,
        stream: Float[Tensor, "copies position ..."],
        replace: Replacements,
        start: int = 0,
        stop: int | None = None,
        cache: Sequence[str] = (),
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Some layers, for copies of the sequences: the stream after them or the answers; and activations."""
        last = stop is None or stop == len(self.layers)
        at, model = self.batch.task.query_positions if last else None, self.model
        if isinstance(model, Transformer) and self.is_sparing:
            tap = model.tap(replace, cache)
            return model.through(stream, tap, at, start, None if last else stop, sparing=True), Cache(tap.kept)
        where = ({"start_at_layer": start} if start else {}) | ({} if last else {"stop_at_layer": stop})
        if not cache:
            return model(stream, replace=replace, at=at, **where), {}
        found: tuple[Tensor, Cache] = model(stream, replace=replace, cache=list(cache), at=at, **where)
        return found

    @property
    def layers(self) -> range:
        return range(self.model.architecture.n_layers)
