"""A model's losses under changes of its attention, many changes in one forward pass.

The changes are defined in `changes`, and the passes in `hopscope.interventions.engine`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.circuits.changes import AsIs, Change, Hard, Kept, Pattern, Silenced, outputs_of, patterns_of, separable
from hopscope.circuits.lab import Lab
from hopscope.circuits.units import Ground
from hopscope.interventions.branches import Branching, Prefixes
from hopscope.interventions.engine import PATTERN, Engine
from hopscope.models.base import Model, Replacement
from hopscope.models.base_sparing import Blind
from hopscope.problem.paths import Path
from hopscope.tasks.base import Batch

#: The evaluator, and the changes that it is given.
__all__ = ["AsIs", "Change", "Evaluator", "Hard", "Kept", "Pattern", "Silenced"]

#: For each combination of a row's paths that have a target at the same position: the mean attention on each there.
Shares = dict[frozenset[Path], dict[Path, float]]
#: Patterns of all layers, or of some layers by number.
ByLayer = Sequence[Pattern] | Mapping[int, Pattern]
OUTPUT = "attn.hook_z"
MANY = 2  # tiles: a batch of at least so many is run one tile at a time, so that its activations stay in the cache


class Evaluator(Engine[Change], Lab[Change]):
    """A model on a set of sequences, under changes of its attention. The arguments are those of `Engine`."""

    def __init__(self, model: Model, batch: Batch, tile: int | None = None):
        super().__init__(model, batch, tile)
        self.ground = Ground(batch, model.architecture)
        self.prefixes = Prefixes()
        self.known_shares: dict[tuple[frozenset[Path], float], Shares] = {}

    def changed(self, changes: Sequence[Change], start: int = 0, stop: int | None = None) -> dict[str, Replacement]:
        """Replacements for the patterns, and if needed the head outputs, of layers `start` to `stop`.

        The batch that they apply to holds one copy of the sequences for each change.
        """
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
        """The model's answers under each change. Changes that do the same up to some layer share these layers' passes.

        If the model cannot start at an inner layer, every change has a pass of its own.
        """
        if len(self.batch) >= MANY * self.tile and changes and all(map(separable, changes)):
            return torch.cat([part.outputs(changes) for part in self.parts], 1)
        self.count(len(changes))
        return Branching(self, changes, self.prefixes).answers()

    def prepared(self) -> Evaluator:
        """Itself, after a clean run, whose activations later passes reuse."""
        assert self.as_it_is.patterns  # makes the clean run
        return self

    def part(self, some: slice) -> Evaluator:
        """The same model on some of the sequences.

        The part reuses the clean run, if it has been computed. Its passes are counted here, too, by its share of the
        sequences.
        """
        found = Evaluator(self.model, self.batch.rows(some), self.tile)
        if self.known is not None:
            found.__dict__["as_it_is"] = self.known.part(some)
        share = len(found.batch) / len(self.batch)
        found.counted = lambda passes: self.count(share * passes)
        return found

    @cached_property
    def parts(self) -> list[Evaluator]:
        """All of the sequences, in parts of at most one tile."""
        return [self.part(slice(i, i + self.tile)) for i in range(0, len(self.batch), self.tile)]

    @cached_property
    def patterns(self) -> list[Pattern]:
        """Every layer's pattern in the clean run."""
        return self.patterns_under(AsIs()) if self.known is None else self.known.patterns

    @torch.no_grad()
    def patterns_under(self, change: Change) -> list[Pattern]:
        """Every layer's pattern under a change, after the change."""
        names = [f"blocks.{layer}.{PATTERN}" for layer in self.layers]
        _, cache = self.through(self.batch.inputs, self.changed([change]), cache=names)
        self.count(1)
        return [cache[name] for name in names]

    def attention(self, path: Path, patterns: ByLayer, at: Tensor | None = None) -> float:
        """Mean attention on a path's targets, over all query positions that have a target, or over those in `at`."""
        mask = self.ground.entries(path)
        on_path = (patterns[path.layer][:, path.head] * mask).sum(-1)
        return float(on_path[mask.any(-1) if at is None else at].mean())

    def shares(self, row: frozenset[Path], least: float = 0.0) -> Shares:
        """Mean attention on some paths of one row, for each combination of them that have a target together.

        Empty if there is only one combination: the means over all positions then say the same.

        Args:
            row: the paths.
            least: a smaller mean is raised to this.
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
        """Mean attention on a path in the clean run; 0 for a path that occurs in none of these sequences."""
        return self.attention(path, self.patterns) if bool(self.ground.entries(path).any()) else 0.0

    @cached_property
    def strengths(self) -> dict[Path, float]:
        """Mean attention on every path in the clean run."""
        return {path: self.attention(path, self.patterns) for path in self.ground.paths}
