"""What a model loses when its attention is changed: many changes at once, tiled into one forward pass.

A change says what each layer's pattern becomes, given what the heads computed from the stream as it then is. The kinds:

- `Kept`: the named units stay as computed, all else is a null pattern. So a head that found its target by what another
  copied does not find it any more when the other is silenced: what is kept must suffice by itself.
- `Frozen`: the named units have the patterns of the untouched model, all else is null: what is kept must carry the
  answers, but need not find them.
- `Hard`: every head's pattern is set by hand, to the ideal rows of some paths and a null pattern elsewhere; this is the
  joint replacement of the paper's appendix E.
- `Silenced`: the named units are null, all else is as computed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.branches import Branching, Prefixes
from hopscope.circuits.losses import Account, Loss
from hopscope.circuits.units import Ground, Row, Unit, given_in, in_layer
from hopscope.interventions.patterns import null, prescribed
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch

#: Sequences in one forward pass: enough to keep two cores busy, few enough to stay in their caches.
TILE = 512
NULLS = ("uniform", "identity", "resample")

Pattern = Float[Tensor, "batch head query key"]
RowPattern = Float[Tensor, "batch query key"]  # of one head; only the rows of one role are looked at


class Change(Protocol):
    """What becomes of attention.

    A change may have a method `key(layer)`: None where the layer stays as it is, else a value such that changes of
    equal keys do the same to equal patterns. What such changes have in common is computed once.
    """

    @property
    def first_layer(self) -> float:
        """The first layer whose pattern may change."""
        ...

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        """The layer's pattern, given the one that was computed."""
        ...


def idle(kind: str, actual: Pattern, ground: Ground) -> Pattern:
    """Patterns of heads that do nothing: even, on oneself, or those of the next sequence of the batch."""
    return actual.roll(1, 0) if kind == "resample" else null(kind, ground.sees).expand_as(actual)


def restricted(pattern: Pattern, units: Iterable[Unit], nothing: Pattern, ground: Ground) -> Pattern:
    """A layer's pattern on some units' entries; the rest of each row's attention falls where a null pattern has it.

    A row of which nothing is kept is the null pattern; of which all is kept, the given one.
    """
    mask = torch.zeros(pattern.shape, dtype=torch.bool, device=pattern.device)
    for unit in units:
        mask[:, unit.head] |= ground.entries(unit)
    kept = pattern * mask
    elsewhere = nothing * ~mask
    lacking, filled = 1 - kept.sum(-1, keepdim=True), elsewhere.sum(-1, keepdim=True)
    return kept + torch.where(filled > 0, elsewhere * (lacking / filled.clamp(min=1e-30)), 0.0)


@dataclass(frozen=True)
class Kept:
    """Units stay as computed; the rest of their rows' attention, and all other rows, are null.

    What a row lacks falls on its entries that are not kept. So it is for sets that name few paths: where all paths of a
    row but one are kept, that one gets its attention back; to take single paths out of the whole model use `Silenced`.

    Attributes:
        units: what is kept.
        null: of all else, but for the rows that are
        identity: of these it is oneself.
        rows: patterns for whole rows, which go before units.
    """

    units: frozenset[Unit]
    null: str = "uniform"
    identity: frozenset[Row] = frozenset()
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)
    first_layer = 0

    def key(self, layer: int) -> Hashable:
        here = in_layer(layer, self.units), in_layer(layer, self.identity), given_in(layer, self.rows)
        return (type(self), self.null, *here) if any(here) else ("idle", self.null)

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        nothing = nulls(self.null, self.identity, layer, actual, ground)
        here = [unit for unit in self.units if unit.layer == layer]
        return with_rows(restricted(actual, here, nothing, ground), self.rows, layer, ground)


@dataclass(frozen=True)
class Frozen:
    """Units have the patterns that they have in the model as it is, whatever became of the stream; all else is null.

    Attributes:
        units: what is kept.
        whole: the model's patterns by layer, on the same sequences.
        null: of all else.
        rows: patterns for whole rows, which go before units.
    """

    units: frozenset[Unit]
    whole: Sequence[Pattern] = field(hash=False, compare=False, repr=False)
    null: str = "uniform"
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)
    first_layer = 0

    def key(self, layer: int) -> Hashable:
        here = in_layer(layer, self.units), given_in(layer, self.rows)
        return (type(self), id(self.whole), self.null, *here) if any(here) else ("idle", self.null)

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        here = [unit for unit in self.units if unit.layer == layer]
        kept = restricted(self.whole[layer], here, idle(self.null, self.whole[layer], ground), ground)
        return with_rows(kept, self.rows, layer, ground)


@dataclass(frozen=True)
class Silenced:
    """Some units become null, all else stays as computed: what removing them from the model as it is costs."""

    units: frozenset[Unit]
    null: str = "uniform"

    @property
    def first_layer(self) -> float:
        return min((unit.layer for unit in self.units), default=math.inf)

    def key(self, layer: int) -> Hashable:
        here = in_layer(layer, self.units)
        return (type(self), self.null, here) if here else None

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        here = [unit for unit in self.units if unit.layer == layer]
        if not here:
            return actual
        mask = torch.zeros(actual.shape, dtype=torch.bool, device=actual.device)
        for unit in here:
            mask[:, unit.head] |= ground.entries(unit)
        taken = (actual * mask).sum(-1, keepdim=True)
        nothing = idle(self.null, actual, ground)
        whole = mask.sum(-1, keepdim=True) == ground.sees.sum(-1)[:, None]
        elsewhere = torch.where(whole, nothing, nothing * ~mask)
        return actual * ~mask + elsewhere / elsewhere.sum(-1, keepdim=True).clamp(min=1e-30) * taken


@dataclass(frozen=True)
class Hard:
    """Every pattern by hand: rows that are given, ideal rows of paths, and null everywhere else.

    Attributes:
        paths: whose rows are ideal, each with its weight in its row (`hopscope.interventions.patterns.prescribed`).
        null: of all other rows.
        rows: patterns for whole rows, which go before those of paths.
    """

    paths: Mapping[Path, float] = field(default_factory=dict)
    null: str = "uniform"
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)
    first_layer = 0

    def key(self, layer: int) -> Hashable:
        weights = frozenset(item for item in self.paths.items() if item[0].layer == layer)
        here = weights, given_in(layer, self.rows)
        return (type(self), self.null, *here) if any(here) else ("idle", self.null)

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        nothing = idle(self.null, actual, ground)
        over = ground.batch.task.ideal_over
        here = {path: weight for path, weight in self.paths.items() if path.layer == layer}
        result = prescribed(nothing, here, ground.roles, ground.sees, over)
        return with_rows(result, self.rows, layer, ground)


def nulls(kind: str, identity: frozenset[Row], layer: int, actual: Pattern, ground: Ground) -> Pattern:
    """A layer's null patterns, where some rows have another than the rest."""
    nothing = idle(kind, actual, ground).clone()
    for row in identity:
        if row.layer == layer:
            at = ground.holders(row.query)[..., None]
            nothing[:, row.head] = torch.where(at, null("identity", ground.sees), nothing[:, row.head])
    return nothing


def with_rows(pattern: Pattern, rows: Mapping[Row, RowPattern], layer: int, ground: Ground) -> Pattern:
    """A layer's pattern with some rows as given."""
    for row, given in rows.items():
        if row.layer == layer:
            at = ground.holders(row.query)[..., None]
            pattern[:, row.head] = torch.where(at, given, pattern[:, row.head])
    return pattern


@dataclass(frozen=True)
class AsIs:
    """No change."""

    first_layer = math.inf

    def key(self, layer: int) -> Hashable:
        return None

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        return actual


class Evaluator:
    """A model on a set of sequences.

    Args:
        model: whose attention is changed.
        batch: the sequences, with a task whose roles are known.
        tile: sequences per forward pass, all changes together.
    """

    def __init__(self, model: Model, batch: Batch, tile: int = TILE):
        self.model, self.batch, self.tile = model, batch, tile
        self.ground = Ground(batch, model.architecture)
        self.prefixes = Prefixes()
        self.forwards = 0  # sequences × changes / sequences: forward passes over the whole set, for the accounts

    @torch.no_grad()
    def outputs(self, changes: Sequence[Change]) -> Float[Tensor, "change batch query output"]:
        """The model's answers under each change. Changes share all layers before the first in which they differ."""
        if self.model.starts_at_layers and changes:
            self.forwards += len(changes)
            return Branching(self, changes).answers()
        per_tile = max(1, self.tile // len(self.batch))
        order = sorted(range(len(changes)), key=lambda i: changes[i].first_layer)
        tiles = [order[i : i + per_tile] for i in range(0, len(order), per_tile)]
        found = torch.cat([self.tiled([changes[i] for i in tile]) for tile in tiles])
        return found[torch.tensor(order).argsort()]

    @cached_property
    def streams(self) -> list[Float[Tensor, "batch position d_model"]]:
        """The residual stream before every layer, of the model as it is."""
        with torch.no_grad():
            names = [f"blocks.{layer}.hook_resid_pre" for layer in self.layers]
            _, cache = self.model(self.batch.inputs, cache=names)
        self.forwards += 1
        return [cache[name] for name in names]

    @cached_property
    def patterns(self) -> list[Pattern]:
        """Every layer's pattern, of the model as it is."""
        return self.patterns_under(AsIs())

    @torch.no_grad()
    def patterns_under(self, change: Change) -> list[Pattern]:
        """Every layer's pattern under a change, as changed; layers before the first that it changes are not run."""
        first = self.first_of(change)
        names = {layer: f"blocks.{layer}.attn.hook_pattern" for layer in self.layers[first:]}
        changed = lambda layer: lambda actual: change.pattern(layer, actual, self.ground)  # noqa: E731
        replace = {name: changed(layer) for layer, name in names.items()}
        begin = (self.streams[first], {"start_at_layer": first}) if first else (self.batch.inputs, {})
        _, cache = self.model(begin[0], replace=replace, cache=list(names.values()), **begin[1])
        self.forwards += 1
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
        self.forwards += n

        def replaced(layer: int, actual: Tensor) -> Tensor:
            copies = actual.unflatten(0, (n, -1))
            return torch.cat([c.pattern(layer, copies[i], self.ground) for i, c in enumerate(changes)])

        start = int(min(len(self.layers) - 1, *(c.first_layer for c in changes)))
        start *= self.model.starts_at_layers
        replace = {
            f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: replaced(layer, actual)
            for layer in self.layers[start:]
        }
        inputs = self.streams[start] if start else self.batch.inputs
        inputs = inputs.repeat(n, *[1] * (inputs.ndim - 1))
        late = {"start_at_layer": start} if start else {}
        outputs: Tensor = self.model(inputs, replace=replace, at=task.query_positions, **late)
        return outputs.unflatten(0, (n, -1))

    def sequence_losses(self, changes: Sequence[Change]) -> Float[Tensor, "change batch"]:
        """The loss of every sequence under each change."""
        return torch.stack([self.losses_of(outputs) for outputs in self.outputs(changes)])

    def losses_of(self, outputs: Float[Tensor, "batch query output"]) -> Float[Tensor, "batch"]:
        """The loss of every sequence, of its outputs."""
        task = self.batch.task
        single = torch.vmap(lambda output, target: task.loss(output[None], target[None]))
        return single(outputs, self.batch.targets)

    def accounts(self, changes: Sequence[Change]) -> list[Account]:
        """All that each change makes of them."""
        return [self.account_of(outputs) for outputs in self.outputs(changes)]

    def account_of(self, outputs: Float[Tensor, "batch query output"]) -> Account:
        """All that outputs tell."""
        hops = self.batch.task.hop_losses(outputs, self.batch.targets).nan_to_num().tolist()
        named = dict(zip(self.batch.task.hop_names, hops, strict=True))
        return Account(self.losses_of(outputs), named, self.batch.task.correct(outputs, self.batch).flatten())

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
