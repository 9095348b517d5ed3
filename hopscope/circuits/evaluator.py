"""What a model loses when its attention is changed: many changes at once, tiled into one forward pass.

A change says what each layer's pattern becomes, given what the heads computed from the stream as it then is. Two kinds:

- `Kept`: the named units stay as computed, all else is a null pattern. So a head that found its target by what another
  copied does not find it any more when the other is silenced: what is kept must suffice by itself.
- `Hard`: every head's pattern is set by hand, to the ideal rows of some paths and a null pattern elsewhere; this is the
  joint replacement of the paper's appendix E.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.units import Ground, Row, Unit
from hopscope.models.transformer import Transformer
from hopscope.paths import Path
from hopscope.patterns import null, prescribed
from hopscope.tasks.base import Batch

#: Sequences in one forward pass: enough to keep two cores busy, few enough to stay in their caches.
TILE = 512
NULLS = ("uniform", "identity", "resample")

Pattern = Float[Tensor, "batch head query key"]
RowPattern = Float[Tensor, "batch query key"]  # of one head; only the rows of one role are looked at


class Change(Protocol):
    """What becomes of attention."""

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


@dataclass(frozen=True)
class Kept:
    """Units stay as computed; the rest of their rows' attention, and all other rows, are null.

    A row of which nothing is kept is the null pattern; of which all is kept, the computed one.
    """

    units: frozenset[Unit]
    null: str = "uniform"
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)  # set by hand, before units are looked at
    first_layer = 0

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        nothing = idle(self.null, actual, ground)
        here = [unit for unit in self.units if unit.layer == layer]
        mask = torch.zeros(actual.shape, dtype=torch.bool, device=actual.device)
        for unit in here:
            mask[:, unit.head] |= ground.entries(unit)
        kept = actual * mask
        elsewhere = nothing * ~mask
        lacking = 1 - kept.sum(-1, keepdim=True)
        filled = elsewhere.sum(-1, keepdim=True)
        mixed = kept + torch.where(filled > 0, elsewhere * (lacking / filled.clamp(min=1e-30)), 0.0)
        return with_rows(mixed, self.rows, layer, ground)


@dataclass(frozen=True)
class Silenced:
    """Some units become null, all else stays as computed: what removing them from the model as it is costs."""

    units: frozenset[Unit]
    null: str = "uniform"

    @property
    def first_layer(self) -> float:
        return min((unit.layer for unit in self.units), default=math.inf)

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
        paths: whose rows are ideal (`hopscope.patterns.prescribed`).
        null: of all other rows.
        rows: patterns for whole rows, which go before those of paths.
    """

    paths: frozenset[Path] = frozenset()
    null: str = "uniform"
    rows: Mapping[Row, RowPattern] = field(default_factory=dict)
    first_layer = 0

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        nothing = idle(self.null, actual, ground)
        over = ground.batch.task.ideal_over
        result = prescribed(nothing, (p for p in self.paths if p.layer == layer), ground.roles, ground.sees, over)
        return with_rows(result, self.rows, layer, ground)


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

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        return actual


@dataclass(frozen=True)
class Loss:
    """A loss over sequences.

    Attributes:
        mean: of the sequences' losses.
        low: lower end of its 95 % confidence interval (normal approximation over sequences).
        high: its upper end.
        n: number of sequences.
    """

    mean: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, losses: Float[Tensor, "batch"]) -> Loss:
        mean, n = float(losses.mean()), len(losses)
        margin = 1.96 * float(losses.std()) / math.sqrt(n) if n > 1 else math.inf
        return cls(mean, mean - margin, mean + margin, n)


class Evaluator:
    """A model on a set of sequences.

    Args:
        model: whose attention is changed.
        batch: the sequences, with a task whose roles are known.
        tile: sequences per forward pass, all changes together.
    """

    def __init__(self, model: Transformer, batch: Batch, tile: int = TILE):
        self.model, self.batch, self.tile = model, batch, tile
        self.ground = Ground(batch, model.architecture)
        self.forwards = 0  # sequences × changes / sequences: forward passes over the whole set, for the accounts

    @torch.no_grad()
    def outputs(self, changes: Sequence[Change]) -> Float[Tensor, "change batch query output"]:
        """The model's answers under each change. What begins late shares what comes before."""
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

    def tiled(self, changes: Sequence[Change]) -> Float[Tensor, "change batch query output"]:
        """One forward pass in which every change has its own copy of the sequences."""
        n, task = len(changes), self.batch.task
        self.forwards += n

        def replaced(layer: int, actual: Tensor) -> Tensor:
            copies = actual.unflatten(0, (n, -1))
            return torch.cat([c.pattern(layer, copies[i], self.ground) for i, c in enumerate(changes)])

        start = int(min(len(self.layers) - 1, *(c.first_layer for c in changes)))
        replace = {
            f"blocks.{layer}.attn.hook_pattern": lambda actual, layer=layer: replaced(layer, actual)
            for layer in self.layers[start:]
        }
        inputs = self.streams[start] if start else self.batch.inputs
        inputs = inputs.repeat(n, *[1] * (inputs.ndim - 1))
        outputs: Tensor = self.model(inputs, replace=replace, at=task.query_positions, start_at_layer=start)
        return outputs.unflatten(0, (n, -1))

    def sequence_losses(self, changes: Sequence[Change]) -> Float[Tensor, "change batch"]:
        """The loss of every sequence under each change."""
        task = self.batch.task
        single = torch.vmap(lambda output, target: task.loss(output[None], target[None]))
        return torch.stack([single(outputs, self.batch.targets) for outputs in self.outputs(changes)])

    def losses(self, changes: Iterable[Change]) -> list[Loss]:
        """The loss under each change, with its interval."""
        changes = list(changes)
        return [Loss.of(row) for row in self.sequence_losses(changes)] if changes else []

    def loss(self, change: Change) -> Loss:
        """The loss under one change."""
        return self.losses([change])[0]

    def hop_losses(self, change: Change) -> dict[str, float]:
        """The partial losses under one change."""
        task = self.batch.task
        values = task.hop_losses(self.outputs([change])[0], self.batch.targets).nan_to_num().tolist()
        return dict(zip(task.hop_names, values, strict=True))

    @torch.no_grad()
    def strengths(self) -> dict[Path, float]:
        """Mean attention on every path of the model as it is: the share of a row that falls on the path's targets."""
        _, cache = self.model(self.batch.inputs, cache=[f"blocks.{i}.attn.hook_pattern" for i in self.layers])
        found = {}
        for path in self.ground.paths:
            mask = self.ground.entries(path)
            held = mask.any(-1)
            on_path = (cache["pattern", path.layer][:, path.head] * mask).sum(-1)
            found[path] = float(on_path[held].mean())
        return found

    @property
    def layers(self) -> range:
        return range(self.model.architecture.n_layers)
