"""Passes of a model on some sequences, whole or in part, with what becomes of its attention.

A pass leaves out what its answers do not depend on: queries and keys of layers whose patterns are set whatever they
are, the last layer where no answer is read off (`hopscope.models.base.Sparing`), and what the model as it is has told
already (`AsItIs`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.changes import Change, Pattern, is_blind, outputs_of, patterns_of
from hopscope.circuits.units import Ground
from hopscope.models.base import Blind, Model, Replacements, Sparing
from hopscope.tasks.base import Batch

STREAM, PATTERN, OUTPUT = "hook_resid_pre", "attn.hook_pattern", "attn.hook_z"
#: Sequences in one forward pass, at most.
TILE = 512
#: Bytes of a layer's widest activation in one pass: enough to keep two cores busy, few enough to stay in their caches.
CACHED = 2**22
ROOM = 2**26  # bytes, of the streams that an evaluator keeps (ours)


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
    patterns: list[Pattern]

    def part(self, some: slice) -> AsItIs:
        """The same of some sequences alone."""
        return AsItIs(self.outputs[some], [x[some] for x in self.streams], [x[some] for x in self.patterns])


class Prefixes:
    """Residual streams of late passes, by what was done to the layers below: a search tries one change after another.

    Attributes:
        streams: the oldest first; with the change, whose parts the key may name by their identity.
    """

    def __init__(self) -> None:
        self.streams: OrderedDict[tuple[Hashable, ...], tuple[Tensor, Change]] = OrderedDict()
        self.size = 0

    def longest(self, keys: Sequence[Hashable]) -> int:
        """The number of layers of the longest prefix that is known."""
        return next((layer for layer in range(len(keys) - 1, 0, -1) if tuple(keys[:layer]) in self.streams), 0)

    def __getitem__(self, keys: Sequence[Hashable]) -> Tensor:
        self.streams.move_to_end(tuple(keys))
        return self.streams[tuple(keys)][0]

    def keep(self, keys: Sequence[Hashable], stream: Tensor, change: Change) -> None:
        """Keep a stream; the oldest go where there is no room."""
        self.streams[tuple(keys)] = stream, change
        self.size += stream.nbytes
        while self.size > ROOM:
            _, (oldest, _) = self.streams.popitem(last=False)
            self.size -= oldest.nbytes


class Passes:
    """A model on a set of sequences.

    Args:
        model: whose attention is changed.
        batch: the sequences, with a task whose roles are known.
        tile: sequences per forward pass, all changes together; by default as many as stay in a processor's cache.
    """

    def __init__(self, model: Model, batch: Batch, tile: int | None = None):
        self.model, self.batch = model, batch
        self.tile = tile_for(model, batch) if tile is None else tile
        self.ground = Ground(batch, model.architecture)
        self.prefixes = Prefixes()
        self.forwards = 0.0  # forward passes over the whole set, those of its parts by their share; for the accounts
        self.counted: Callable[[float], None] = lambda passes: None  # a part tells the whole

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
    def known(self) -> AsItIs | None:
        """The same, if it has been run."""
        return self.__dict__.get("as_it_is")

    def count(self, passes: float) -> None:
        """Note forward passes over its sequences, in the accounts of what it is a part of, too."""
        self.forwards += passes
        self.counted(passes)

    @property
    def streams(self) -> list[Float[Tensor, "batch position d_model"]]:
        """The residual stream before every layer, of the model as it is."""
        return self.as_it_is.streams

    def changed(self, changes: Sequence[Change], start: int = 0, stop: int | None = None) -> Sparing:
        """What becomes of some layers' patterns, and of what heads say, with a change for each copy of the sequences.

        A layer whose pattern no change looks at need not compute it.
        """
        found, ground = Sparing(), self.ground
        for layer in self.layers[start:stop]:
            new = partial(patterns_of, changes, layer, ground=ground)
            blind = all(is_blind(change, layer) for change in changes)
            found[f"blocks.{layer}.{PATTERN}"] = Blind(new) if blind else new
            if any(hasattr(change, "output") for change in changes):
                found[f"blocks.{layer}.{OUTPUT}"] = partial(outputs_of, changes, layer, ground=ground)
        return found

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
        where = ({"start_at_layer": start} if start else {}) | ({} if last else {"stop_at_layer": stop})
        at = self.batch.task.query_positions if last else None
        if not cache:
            return self.model(stream, replace=replace, at=at, **where), {}
        return self.model(stream, replace=replace, cache=list(cache), at=at, **where)

    @property
    def layers(self) -> range:
        return range(self.model.architecture.n_layers)
