"""What a model loses when its attention is changed: many changes at once, tiled into one forward pass.

What becomes of attention is said in `changes`; passes are those of `hopscope.interventions.engine`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import torch
from jaxtyping import Float
from torch import Tensor

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
    separable,
)
from hopscope.circuits.lab import Lab
from hopscope.circuits.units import Ground
from hopscope.interventions.branches import Branching, Prefixes
from hopscope.interventions.engine import PATTERN, Engine
from hopscope.models.base import Model, Replacement
from hopscope.models.base_sparing import Blind
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch

#: With the changes that it is asked about.
__all__ = ["NULLS", "AsIs", "Change", "Evaluator", "Hard", "Kept", "Pattern", "RowPattern", "Silenced"]

#: By which paths of a row have a target, what each of them gets.
Shares = dict[frozenset[Path], dict[Path, float]]
#: Patterns, by layer.
ByLayer = Sequence[Pattern] | Mapping[int, Pattern]
OUTPUT = "attn.hook_z"
MANY = 2  # times as many sequences as stay in a cache: they are run in parts


class Evaluator(Engine[Change], Lab[Change]):
    """A model on a set of sequences, whose attention is changed.

    The arguments are those of `Engine`.
    """

    def __init__(self, model: Model, batch: Batch, tile: int | None = None):
        super().__init__(model, batch, tile)
        self.ground = Ground(batch, model.architecture)
        self.prefixes = Prefixes()
        self.known_shares: dict[tuple[frozenset[Path], float], Shares] = {}

    def changed(self, changes: Sequence[Change], start: int = 0, stop: int | None = None) -> dict[str, Replacement]:
        """What becomes of some layers' patterns, and of what heads say, one change for each copy of the sequences."""
        found: dict[str, Replacement] = {}
        for layer in self.layers[start:stop]:
            new = partial(patterns_of, changes, layer, ground=self.ground)
            blind = all(change.blind(layer) for change in changes)
            found[f"blocks.{layer}.{PATTERN}"] = Blind(new) if blind else new
            if any(hasattr(change, "output") for change in changes):
                found[f"blocks.{layer}.{OUTPUT}"] = partial(outputs_of, changes, layer, ground=self.ground)
        return found

    @torch.no_grad()
    def outputs(self, changes: Sequence[Change]) -> Float[Tensor, "change batch query output"]:
        """The model's answers under each change. Layers before the first in which changes differ are run once.

        If a model cannot start at a layer, every change has a pass of its own.
        """
        if len(self.batch) >= MANY * self.tile and changes and all(map(separable, changes)):
            return torch.cat([part.outputs(changes) for part in self.parts], 1)
        self.count(len(changes))
        return Branching(self, changes, self.prefixes).answers()

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

    @cached_property
    def parts(self) -> list[Evaluator]:
        """All of the sequences, in as many parts as a cache asks for."""
        return [self.part(slice(i, i + self.tile)) for i in range(0, len(self.batch), self.tile)]

    @cached_property
    def patterns(self) -> list[Pattern]:
        """Every layer's pattern, of the model as it is."""
        return self.patterns_under(AsIs()) if self.known is None else self.known.patterns

    @torch.no_grad()
    def patterns_under(self, change: Change) -> list[Pattern]:
        """Every layer's pattern under a change, as changed."""
        names = [f"blocks.{layer}.{PATTERN}" for layer in self.layers]
        _, cache = self.through(self.batch.inputs, self.changed([change]), cache=names)
        self.count(1)
        return [cache[name] for name in names]

    def attention(self, path: Path, patterns: ByLayer, at: Tensor | None = None) -> float:
        """Mean attention on a path: what falls on its targets, over the positions that have any, or over given ones."""
        mask = self.ground.entries(path)
        on_path = (patterns[path.layer][:, path.head] * mask).sum(-1)
        return float(on_path[mask.any(-1) if at is None else at].mean())

    def shares(self, row: frozenset[Path], least: float = 0.0) -> Shares:
        """Mean attention on a few paths of one row, by which of them have a target; empty where that is always so.

        Args:
            row: the paths.
            least: what each gets at least where it has a target.
        """
        if (row, least) not in self.known_shares:
            each: Shares = {}
            has = torch.stack([self.ground.entries(path).any(-1) for path in sorted(row)], -1)
            for present in has[has.any(-1)].unique(dim=0):
                at, some = (has == present).all(-1), [*itertools.compress(sorted(row), present.tolist())]
                each[frozenset(some)] = {path: max(least, self.attention(path, self.patterns, at)) for path in some}
            self.known_shares[row, least] = each if len(each) > 1 else {}
        return self.known_shares[row, least]

    def strength(self, path: Path) -> float:
        """Mean attention on a path of the model as it is; 0 of one that is in none of these sequences."""
        return self.attention(path, self.patterns) if bool(self.ground.entries(path).any()) else 0.0

    @cached_property
    def strengths(self) -> dict[Path, float]:
        """Mean attention on every path of the model as it is."""
        return {path: self.attention(path, self.patterns) for path in self.ground.paths}
