"""What a model loses when its attention is changed: many changes at once, tiled into one forward pass.

What becomes of attention is said in `changes`, which changes share in `branches`. A pass leaves out what its answers do
not depend on: queries and keys of layers whose patterns are set whatever they are, the last layer where no answer is
read off (`hopscope.models.base.Sparing`), and what the model as it is has told already (`AsItIs`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.branches import Branching, Prefixes, is_blind, is_separable
from hopscope.circuits.changes import (
    NULLS,
    AsIs,
    Change,
    Hard,
    Kept,
    Pattern,
    RowPattern,
    Silenced,
    outputs_of,
    patterns_of,
)
from hopscope.circuits.lab import Lab
from hopscope.circuits.units import Ground
from hopscope.models.base import Blind, Model, Replacements, Sparing
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch

#: With the changes that it is asked about.
__all__ = ["NULLS", "AsIs", "Change", "Evaluator", "Hard", "Kept", "Pattern", "RowPattern", "Silenced"]

STREAM, PATTERN, OUTPUT = "hook_resid_pre", "attn.hook_pattern", "attn.hook_z"
#: Sequences in one forward pass, at most.
TILE = 512
#: Bytes of a layer's widest activation in one pass: enough to keep two cores busy, few enough to stay in their caches.
CACHED = 2**22
MANY = 2  # times as many sequences as stay in a cache: they are run in parts


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


class Evaluator(Lab[Change]):
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

    @torch.no_grad()
    def outputs(self, changes: Sequence[Change]) -> Float[Tensor, "change batch query output"]:
        """The model's answers under each change. Changes share all layers before the first in which they differ."""
        if len(self.batch) >= MANY * self.tile and changes and all(map(is_separable, changes)):
            return torch.cat([part.outputs(changes) for part in self.parts], 1)
        if self.model.starts_at_layers and changes:
            self.count(len(changes))
            return Branching(self, changes).answers()
        per_tile = max(1, self.tile // len(self.batch))
        tiles = [changes[i : i + per_tile] for i in range(0, len(changes), per_tile)]
        return torch.cat([self.tiled(tile) for tile in tiles])

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

    def prepared(self) -> Evaluator:
        """Itself, the model having run as it is: later passes start from what that told."""
        assert self.as_it_is.patterns
        return self

    def part(self, some: slice) -> Evaluator:
        """The same model on some of the sequences; what is known of it as it is, is theirs, too."""
        found = Evaluator(self.model, self.batch.rows(some), self.tile)
        if self.known is not None:
            found.__dict__["as_it_is"] = self.known.part(some)
        share = len(found.batch) / len(self.batch)
        found.counted = lambda passes: self.count(share * passes)
        return found

    def count(self, passes: float) -> None:
        """Note forward passes over its sequences, in the accounts of what it is a part of, too."""
        self.forwards += passes
        self.counted(passes)

    @cached_property
    def parts(self) -> list[Evaluator]:
        """All of the sequences, in as many parts as a cache asks for."""
        return [self.part(slice(i, i + self.tile)) for i in range(0, len(self.batch), self.tile)]

    @property
    def streams(self) -> list[Float[Tensor, "batch position d_model"]]:
        """The residual stream before every layer, of the model as it is."""
        return self.as_it_is.streams

    @cached_property
    def patterns(self) -> list[Pattern]:
        """Every layer's pattern, of the model as it is."""
        return self.patterns_under(AsIs()) if self.known is None else self.known.patterns

    @torch.no_grad()
    def patterns_under(self, change: Change) -> list[Pattern]:
        """Every layer's pattern under a change, as changed; layers before the first that it changes are not run."""
        first = self.first_of(change)
        names = [f"blocks.{layer}.{PATTERN}" for layer in self.layers[first:]]
        stream = self.streams[first] if first else self.batch.inputs
        _, cache = self.through(stream, self.changed([change], first), first, cache=names)
        self.count(1)
        return [*(self.patterns[:first] if first else ()), *(cache[name] for name in names)]

    def first_of(self, change: Change) -> int:
        """The first layer to be run anew for a change; 0 for a model that has to begin at the bottom."""
        begins = self.model.starts_at_layers and change.first_layer < len(self.layers)
        return int(change.first_layer) if begins else 0

    def attention(self, path: Path, patterns: Sequence[Pattern]) -> float:
        """Mean attention on a path: what falls on its targets, over the positions that have any."""
        mask = self.ground.entries(path)
        on_path = (patterns[path.layer][:, path.head] * mask).sum(-1)
        return float(on_path[mask.any(-1)].mean())

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

    def tiled(self, changes: Sequence[Change]) -> Float[Tensor, "change batch query output"]:
        """One forward pass in which every change has its own copy of the sequences."""
        self.count(len(changes))
        copies = self.batch.inputs.expand(len(changes), *self.batch.inputs.shape)
        return Branching(self, changes).run(0, len(self.layers), copies, changes)

    def hop_losses(self, change: Change) -> dict[str, float]:
        """The partial losses under one change."""
        return self.accounts([change])[0].hop_losses

    def shares(self, row: Sequence[Path]) -> dict[frozenset[Path], dict[Path, float]]:
        """Mean attention on a few paths of one row, by which of them have a target; empty where that is always so."""
        patterns, found = self.patterns, {}
        has = torch.stack([self.ground.entries(path).any(-1) for path in row], -1)
        for present in has[has.any(-1)].unique(dim=0):
            at = (has == present).all(-1)
            on = {path: patterns[path.layer][:, path.head] * self.ground.entries(path) for path in row}
            some = frozenset(itertools.compress(row, present.tolist()))
            found[some] = {path: float(on[path].sum(-1)[at].mean()) for path in some}
        return found if len(found) > 1 else {}

    def strength(self, path: Path) -> float:
        """Mean attention on a path of the model as it is; 0 of one that is in none of these sequences."""
        return self.attention(path, self.patterns) if bool(self.ground.entries(path).any()) else 0.0

    @cached_property
    def strengths(self) -> dict[Path, float]:
        """Mean attention on every path of the model as it is."""
        return {path: self.attention(path, self.patterns) for path in self.ground.paths}

    @property
    def layers(self) -> range:
        return range(self.model.architecture.n_layers)
