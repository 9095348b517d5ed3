"""What a model loses when its attention is changed: many changes at once, tiled into one forward pass.

What becomes of attention is said in `changes`, which changes share in `branches`. A pass leaves out what its answers do
not depend on: queries and keys of layers whose patterns are set whatever they are, the last layer where no answer is
read off (`hopscope.models.base.Sparing`), and what the model as it is has told already (`AsItIs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.branches import Branching, Prefixes, is_separable
from hopscope.circuits.changes import NULLS as NULLS
from hopscope.circuits.changes import AsIs as AsIs
from hopscope.circuits.changes import Change as Change
from hopscope.circuits.changes import Frozen as Frozen
from hopscope.circuits.changes import Hard as Hard
from hopscope.circuits.changes import Kept as Kept
from hopscope.circuits.changes import Pattern as Pattern
from hopscope.circuits.changes import RowPattern as RowPattern
from hopscope.circuits.changes import Silenced as Silenced
from hopscope.circuits.changes import nulls as nulls
from hopscope.circuits.changes import outputs_of, patterns_of, speak
from hopscope.circuits.changes import with_rows as with_rows
from hopscope.circuits.losses import Account, Loss
from hopscope.circuits.units import Ground
from hopscope.models.base import Model, Sparing
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch

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


class Evaluator:
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
        order = sorted(range(len(changes)), key=lambda i: changes[i].first_layer)
        tiles = [order[i : i + per_tile] for i in range(0, len(order), per_tile)]
        found = torch.cat([self.tiled([changes[i] for i in tile]) for tile in tiles])
        return found[torch.tensor(order).argsort()]

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
        names = {layer: f"blocks.{layer}.{PATTERN}" for layer in self.layers[first:]}
        changed = lambda layer: lambda actual: change.pattern(layer, actual, self.ground)  # noqa: E731
        replace = Sparing({name: changed(layer) for layer, name in names.items()})
        begin = (self.streams[first], {"start_at_layer": first}) if first else (self.batch.inputs, {})
        at = self.batch.task.query_positions
        _, cache = self.model(begin[0], replace=replace, cache=list(names.values()), at=at, **begin[1])
        self.count(1)
        return [*(self.patterns[:first] if first else ()), *(cache[name] for name in names.values())]

    def first_of(self, change: Change) -> int:
        """The first layer to be run anew for a change; 0 for a model that has to begin at the bottom."""
        begins = self.model.starts_at_layers and change.first_layer < len(self.layers)
        return int(change.first_layer) if begins else 0

    def attention(self, path: Path, patterns: Sequence[Pattern]) -> float:
        """Mean attention on a path: what falls on its targets, over the positions that have any."""
        mask = self.ground.entries(path)
        on_path = (patterns[path.layer][:, path.head] * mask).sum(-1)
        return float(on_path[mask.any(-1)].mean())

    def tiled(self, changes: Sequence[Change]) -> Float[Tensor, "change batch query output"]:
        """One forward pass in which every change has its own copy of the sequences."""
        n, task = len(changes), self.batch.task
        self.count(n)
        start = int(min(len(self.layers) - 1, *(c.first_layer for c in changes)))
        start *= self.model.starts_at_layers
        kinds = ((PATTERN, patterns_of), *([(OUTPUT, outputs_of)] if speak(changes) else []))
        replace = {
            f"blocks.{layer}.{name}": lambda actual, layer=layer, of=of: of(changes, layer, actual, self.ground)
            for layer in self.layers[start:]
            for name, of in kinds
        }
        inputs = self.streams[start] if start else self.batch.inputs
        inputs = inputs.repeat(n, *[1] * (inputs.ndim - 1))
        late = {"start_at_layer": start} if start else {}
        outputs: Tensor = self.model(inputs, replace=replace, at=task.query_positions, **late)
        return outputs.unflatten(0, (n, -1))

    def sequence_losses(self, changes: Sequence[Change]) -> Float[Tensor, "change batch"]:
        """The loss of every sequence under each change."""
        return self.losses_of_copies(self.outputs(changes))

    def hits_of(self, outputs: Float[Tensor, "batch query output"]) -> Bool[Tensor, "answer"]:
        """Which answers of its outputs are right."""
        return self.batch.task.correct(outputs, self.batch).flatten()

    def losses_of(self, outputs: Float[Tensor, "batch query output"]) -> Float[Tensor, "batch"]:
        """The loss of every sequence, of its outputs."""
        task = self.batch.task
        single = torch.vmap(lambda output, target: task.loss(output[None], target[None]))
        return single(outputs, self.batch.targets)

    def losses_of_copies(self, outputs: Float[Tensor, "copy batch query output"]) -> Float[Tensor, "copy batch"]:
        """The loss of every sequence in every copy."""
        targets = self.batch.targets.repeat(len(outputs), *[1] * (self.batch.targets.ndim - 1))
        single = torch.vmap(lambda output, target: self.batch.task.loss(output[None], target[None]))
        return single(outputs.flatten(0, 1), targets).unflatten(0, (len(outputs), -1))

    def accounts(self, changes: Sequence[Change]) -> list[Account]:
        """All that each change makes of them."""
        return [self.account_of(outputs) for outputs in self.outputs(changes)]

    def account_of(self, outputs: Float[Tensor, "batch query output"]) -> Account:
        """All that outputs tell."""
        hops = self.batch.task.hop_losses(outputs, self.batch.targets).nan_to_num().tolist()
        named = dict(zip(self.batch.task.hop_names, hops, strict=True))
        return Account(self.losses_of(outputs), named, self.hits_of(outputs))

    def losses(self, changes: Iterable[Change]) -> list[Loss]:
        """The loss under each change, with its interval."""
        changes = list(changes)
        return [Loss.of(row) for row in self.sequence_losses(changes)] if changes else []

    def loss(self, change: Change) -> Loss:
        """The loss under one change."""
        return self.losses([change])[0]

    def hop_losses(self, change: Change) -> dict[str, float]:
        """The partial losses under one change."""
        return self.accounts([change])[0].hop_losses

    @cached_property
    def strengths(self) -> dict[Path, float]:
        """Mean attention on every path of the model as it is."""
        return {path: self.attention(path, self.patterns) for path in self.ground.paths}

    @property
    def layers(self) -> range:
        return range(self.model.architecture.n_layers)
