"""Use: whether the model as it is does what a circuit says.

Where all else is null a route may suffice that the model never takes: a head that others keep asleep wakes up. Such a
path gets next to no attention in the model as it is, and silencing it there moves next to nothing. Both are asked for:
an MLP may be content with either of two heads that do the same. And a null pattern may be what a head does anyway, so
that nothing was taken from the model where it is idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from hopscope.circuits.changes import AsIs, Kept, Silenced, nulls
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.losses import Loss
from hopscope.circuits.units import Row
from hopscope.interventions.patterns import NULLS
from hopscope.problem.paths import Path

ASLEEP = 0.01  # of its row's attention, and of what all heads move: below both a path is asleep (ours)
INTACT = 0.9  # of a row's attention, that a null places where the model does: such a row is not idle (ours)


def sleeps(strength: float, use: float) -> bool:
    """Whether the model does not use a path, by its mean attention and what silencing it moves."""
    return strength < ASLEEP and use < ASLEEP


@dataclass(frozen=True)
class Use:
    """What silencing a path alone does to the model as it is.

    Attributes:
        loss: then.
        moves: how far the outputs move; 1: as far as with all heads idle.
    """

    loss: Loss
    moves: float


def use_of(evaluator: Evaluator, paths: Sequence[Path], null: str) -> dict[Path, Use]:
    """What silencing each path does.

    Args:
        evaluator: the model on sequences.
        paths: which; of one that is in none of these sequences nothing is known, and it counts as used.
        null: what becomes of a silenced path's attention, and of heads that are idle.
    """
    if not paths:
        return {}
    silenced = [Silenced(frozenset([path]), null) for path in paths]
    whole, idle, *without = evaluator.outputs([AsIs(), Kept(frozenset(), null), *silenced])
    most = float((idle - whole).abs().mean())
    found = {}
    for path, outputs in zip(paths, without, strict=True):
        known = most and bool(evaluator.ground.entries(path).any())
        moves = float((outputs - whole).abs().mean()) / most if known else 1.0
        found[path] = Use(Loss.of(evaluator.losses_of(outputs)), moves)
    return found


def left_intact(
    evaluator: Evaluator, rows: Iterable[Row], null: str, identity: frozenset[Row], bound: float
) -> list[Row]:
    """Of some rows those that attend under a null as they do anyway, though the model needs them: others harm it.

    A head that attends by position alone survives resampling, and one that attends evenly the uniform null.

    Args:
        evaluator: the model on sequences.
        rows: which are idle.
        null: what idle rows attend to, but for those that are
        identity: they attend to themselves.
        bound: the loss that the model has at least where another null takes away what it needs.
    """
    ground, kinds = evaluator.ground, [kind for kind in NULLS if kind != null]
    shared = [
        torch.minimum(actual, nulls(null, identity, layer, actual, ground)).sum(-1)
        for layer, actual in enumerate(evaluator.patterns)
    ]
    alike = [row for row in rows if float(shared[row.layer][:, row.head][ground.holders(row.query)].mean()) >= INTACT]
    harm = {row: evaluator.losses(Silenced(frozenset([row]), kind) for kind in kinds) for row in alike}
    return [row for row in alike if max(loss.mean for loss in harm[row]) >= bound]
