"""Many interventions in one forward pass that branches where they differ.

Interventions that treat the first layers alike share them. One copy of the sequences runs until two interventions do
different things to a layer; from there on each kind has a copy. An ablation in a late layer costs only the layers after
it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Sequence
from typing import Generic

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from hopscope.interventions.engine import PATTERN, C, Engine, Intervention
from hopscope.models.base_sparing import Parting

Groups = Sequence[Sequence[int]]  # groups of interventions, by their index
Z = "attn.hook_z"
ROOM = 2**26  # bytes of kept residual streams (our choice)


class Prefixes:
    """Residual streams of earlier passes, by what was done to the layers below, for searches that try many changes.

    Attributes:
        streams: oldest first, each with its intervention, which keeps alive the objects that keys name by id.
    """

    def __init__(self) -> None:
        self.streams: OrderedDict[tuple[Hashable, ...], tuple[Tensor, Intervention]] = OrderedDict()
        self.size = 0

    def longest(self, keys: Sequence[Hashable]) -> int:
        """The number of layers of the longest prefix whose stream is kept."""
        return next((layer for layer in range(len(keys) - 1, 0, -1) if tuple(keys[:layer]) in self.streams), 0)

    def __getitem__(self, keys: Sequence[Hashable]) -> Tensor:
        self.streams.move_to_end(tuple(keys))
        return self.streams[tuple(keys)][0]

    def keep(self, keys: Sequence[Hashable], stream: Tensor, change: Intervention) -> None:
        """Keep a stream; the least recently used ones are dropped beyond `ROOM` bytes."""
        self.streams[tuple(keys)] = stream, change
        self.size += stream.nbytes
        while self.size > ROOM:
            _, (oldest, _) = self.streams.popitem(last=False)
            self.size -= oldest.nbytes


class Branching(Generic[C]):
    """A pass of several interventions through a model; it branches if the model can start and stop at any layer.

    Attributes:
        keys: for every intervention and layer, a value for what the one does to the other; None for nothing.
        outputs_of: the outputs, by index of the intervention.
    """

    def __init__(self, engine: Engine[C], changes: Sequence[C], prefixes: Prefixes):
        self.engine, self.changes, self.prefixes = engine, changes, prefixes
        self.n_layers = len(engine.layers)
        self.shares = bool(engine.model.starts_at_layers)  # else no two changes share a layer
        self.keys: list[list[Hashable]] = [
            [change.key(layer) for layer in engine.layers] if self.shares else [place] * max(1, self.n_layers)
            for place, change in enumerate(changes)
        ]
        self.outputs_of: dict[int, Float[Tensor, "batch query output"]] = {}

    def answers(self) -> Float[Tensor, "change batch query output"]:
        """The model's outputs under each intervention."""
        known, places = self.engine.known, [*range(len(self.changes))]
        if known is not None:  # an intervention without effect need not be run
            self.outputs_of = {i: known.outputs for i, keys in enumerate(self.keys) if all(key is None for key in keys)}
        left = [place for place in places if place not in self.outputs_of]
        if len(self.changes) == 1 and left and self.shares:
            return self.alone()[None]
        if left:
            start = min(self.first_of(place) for place in left)
            stream = self.engine.as_it_is.streams[start] if start else self.engine.batch.inputs
            self.descend(start, stream[None], [left])
        return torch.stack([self.outputs_of[place] for place in places])

    def first_of(self, place: int) -> int:
        """The first layer that an intervention alters; the last layer if it alters none."""
        return next((layer for layer, key in enumerate(self.keys[place]) if key is not None), self.n_layers - 1)

    def alone(self) -> Float[Tensor, "batch query output"]:
        """The outputs under a single intervention, started at the longest prefix that is kept."""
        engine, keys = self.engine, self.keys[0]
        start, first = self.prefixes.longest(keys), self.first_of(0)
        stream = self.prefixes[keys[:start]] if start else engine.batch.inputs
        if engine.known is not None and first > start:
            start, stream = first, engine.as_it_is.streams[first]
        names = {f"blocks.{layer}.hook_resid_pre": layer for layer in range(start + 1, self.n_layers)}
        replace = engine.changed(self.changes, start, self.n_layers)
        answers, streams = engine.through(stream, replace, start, cache=list(names))
        for name, layer in names.items():
            self.prefixes.keep(keys[:layer], streams[name], self.changes[0])
        return answers

    def descend(self, layer: int, stream: Shaped[Tensor, "group batch position ..."], groups: Groups) -> None:
        """Continue from a layer with groups of interventions that are alike so far, one copy of the stream for each."""
        apart = [(parent, part) for parent, group in enumerate(groups) for part in self.parts(group, layer)]
        per_tile = max(1, self.engine.tile // len(self.engine.batch))
        for begin in range(0, len(apart), per_tile):
            some = apart[begin : begin + per_tile]
            parts = [part for _, part in some]
            parents = [parent for parent, _ in some]
            until = self.next_branch(parts, layer)
            later = self.run(layer, until, stream, parents, [self.changes[part[0]] for part in parts])
            if until == self.n_layers:
                self.outputs_of |= {place: later[i] for i, part in enumerate(parts) for place in part}
            else:
                self.descend(until, later, parts)

    def parts(self, group: Sequence[int], layer: int) -> list[list[int]]:
        """A group of interventions, split by what they do to a layer."""
        parts: dict[Hashable, list[int]] = defaultdict(list)
        for place in group:
            parts[self.keys[place][layer]].append(place)
        return list(parts.values())

    def next_branch(self, groups: Groups, layer: int) -> int:
        """The first later layer at which a group splits, or the number of layers."""
        several = [group for group in groups if len(group) > 1]
        later = range(layer + 1, self.n_layers)
        return next((i for i in later if any(len(self.parts(group, i)) > 1 for group in several)), self.n_layers)

    def run(
        self, start: int, stop: int, stream: Tensor, parents: Sequence[int], changes: Sequence[C]
    ) -> Shaped[Tensor, "group batch ..."]:
        """Run layers `start` to `stop` with one intervention per copy: the stream after them, or the outputs.

        Copies that part by the first layer's pattern share what comes before it.
        """
        replace = self.engine.changed(changes, start, stop)
        part_at, first = f"blocks.{start}.{PATTERN}", f"blocks.{start}."
        of, copy = torch.tensor(parents, device=stream.device).unique(return_inverse=True)
        here, new = {name for name in replace if name.startswith(first)}, replace.get(part_at)
        if (
            len(of) < len(copy)
            and self.shares
            and self.engine.is_sparing
            and callable(new)
            and here <= {part_at, first + Z}
        ):
            each = torch.arange(stream.shape[1], device=stream.device)
            replace[part_at] = Parting(new, (copy[:, None] * len(each) + each).flatten())
            copy = torch.arange(len(of), device=stream.device)
        outputs, _ = self.engine.through(stream[of[copy]].flatten(0, 1), replace, start, stop)
        return outputs.unflatten(0, (len(parents), -1))
