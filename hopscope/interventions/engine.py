"""An engine that runs a model's blocks on some sequences, under many interventions.

- Activations that nothing reads are not computed: queries and keys of layers whose patterns are replaced unread, and
  the last layer at positions that are no queries (`hopscope.models.base_sparing`).
- The clean run is cached (`AsItIs`), and so are the layers that interventions share
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
#: Most sequences in one forward pass.
TILE = 512
#: Bytes of a layer's widest activation in one pass: enough for two cores, and small enough for their caches.
CACHED = 2**22


def tile_for(model: Model, batch: Batch) -> int:
    """The number of sequences in one forward pass of a model."""
    shape = model.architecture
    width = shape.d_model * (4 if shape.mlp else 1)
    return max(1, min(TILE, CACHED // max(1, 4 * width * batch.inputs.shape[1])))


@dataclass(frozen=True)
class AsItIs:
    """The clean run: a forward pass without interventions.

    Attributes:
        outputs: the model's outputs.
        streams: the residual stream before every layer; empty for a model that must start at the first layer.
        patterns: the attention patterns of every layer.
    """

    outputs: Float[Tensor, "batch query output"]
    streams: list[Float[Tensor, "batch position d_model"]]
    patterns: list[Float[Tensor, "batch head query key"]]

    def part(self, some: slice) -> AsItIs:
        """The clean run of some of the sequences."""
        return AsItIs(self.outputs[some], [x[some] for x in self.streams], [x[some] for x in self.patterns])


class Intervention:
    """A change of a model's activations, layer by layer."""

    @property
    def first_layer(self) -> float:
        """The first layer that it may change."""
        return 0

    def key(self, layer: int) -> Hashable:
        """None for a layer that it leaves alone, else a value: interventions of equal keys do the same to the layer.

        What such interventions share is computed once. By default no two are equal.
        """
        return None if layer < self.first_layer else id(self)


C = TypeVar("C", bound=Intervention)


class Engine(ABC, Generic[C]):
    """Runs a model on a set of sequences under interventions.

    Args:
        model: the model.
        batch: the sequences, of a task with known roles.
        tile: sequences per forward pass, all interventions together; by default as many as fit a processor's cache.
    """

    def __init__(self, model: Model, batch: Batch, tile: int | None = None):
        self.model, self.batch = model, batch
        self.tile = tile_for(model, batch) if tile is None else tile
        self.forwards = 0.0  # over the whole set; passes over a part count in proportion
        self.counted: Callable[[float], None] = lambda passes: None  # a part reports to its whole

    @abstractmethod
    def changed(self, changes: Sequence[C], start: int = 0, stop: int | None = None) -> dict[str, Replacement]:
        """Replacements for layers `start` to `stop`, with one intervention for each copy of the sequences.

        A replacement that does not read the pattern is `Blind`; that pattern need not be computed.
        """

    @cached_property
    def as_it_is(self) -> AsItIs:
        """The clean run, with the activations that later passes reuse; computed once."""
        names = {short: [f"blocks.{layer}.{short}" for layer in self.layers] for short in (STREAM, PATTERN)}
        read = names[PATTERN] + (names[STREAM] if self.model.starts_at_layers else [])
        with torch.no_grad():
            outputs, cache = self.model(self.batch.inputs, cache=read, at=self.batch.task.query_positions)
        self.count(1)
        return AsItIs(outputs, *([cache[name] for name in names[short] if name in cache] for short in names))

    @property
    def is_sparing(self) -> bool:
        """Whether blocks leave out activations that nothing reads."""
        return isinstance(self.model, Transformer) and type(self.model).forward is Transformer.forward

    @property
    def known(self) -> AsItIs | None:
        """The clean run, if it has been computed."""
        return self.__dict__.get("as_it_is")

    def count(self, passes: float) -> None:
        """Count forward passes over these sequences, also for the engine that this one is a part of."""
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
        """Run layers `start` to `stop` on copies of the sequences; returns their stream or outputs, and a cache."""
        last = stop is None or stop == len(self.layers)
        at, model = self.batch.task.query_positions if last else None, self.model
        if isinstance(model, Transformer) and self.is_sparing:
            tap = model.tap(replace, cache)
            return model.through(stream, tap, at, start, None if last else stop, sparing=True), Cache(tap.kept)
        where = ({"start_at_layer": start} if start else {}) | ({} if last else {"stop_at_layer": stop})
        if not cache:
            return model(stream, replace=replace, at=at, **where), {}
        return model(stream, replace=replace, cache=list(cache), at=at, **where)

    @property
    def layers(self) -> range:
        return range(self.model.architecture.n_layers)
