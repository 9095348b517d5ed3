"""Use: whether the full model does what a circuit describes.

With all else null, paths may suffice that the full model never uses, because a head becomes active that other heads
otherwise suppress. Such a path gets almost no attention in the full model, and silencing it there changes almost
nothing. Both conditions are required. If two heads do the same work, either can be silenced without effect. And if a
null pattern equals what a head does anyway, silencing that head removes nothing.
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

ASLEEP = 0.01  # a path is asleep if its share of its row's attention and its `Use.moves` are both below this (ours)
INTACT = 0.9  # least share of attention that null and model place alike for the null to leave a row unchanged (ours)


@dataclass(frozen=True)
class Use:
    """The effect of silencing a single path of the full model.

    Attributes:
        loss: the loss with the path silenced.
        moves: how far the outputs move, relative to silencing every head.
    """

    loss: Loss
    moves: float


def use_of(evaluator: Evaluator, paths: Sequence[Path], null: str) -> dict[Path, Use]:
    """The effect of silencing each path.

    Args:
        evaluator: the model on sequences.
        paths: the paths; one that occurs in none of the sequences counts as used (`moves` is 1).
        null: the null pattern for the path, and for every head when all are silenced.
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


def asleep(evaluator: Evaluator, paths: Iterable[Path], null: str) -> list[Path]:
    """The paths that the full model does not use, on these sequences; arguments as in `use_of`.

    Attention counts where a position has a choice. A position that sees only itself always attends to itself.
    """
    chooses = evaluator.ground.sees.sum(-1) > 1
    at = {path: evaluator.ground.entries(path).any(-1) & chooses for path in paths}
    some = [path for path in at if at[path].any()]
    faint = [path for path in some if evaluator.attention(path, evaluator.patterns, at[path]) < ASLEEP]
    return [path for path, use in use_of(evaluator, faint, null).items() if use.moves < ASLEEP]


def left_intact(
    evaluator: Evaluator, rows: Iterable[Row], null: str, identity: frozenset[Row], bound: float
) -> list[Row]:
    """The rows whose attention a null leaves almost unchanged, although other nulls show that the model needs them.

    Resampling does not change a head that attends by position alone, and the uniform null does not change one that
    attends evenly.

    Args:
        evaluator: the model on sequences.
        rows: the rows that are ablated.
        null: the null pattern of these rows, except for those in `identity`.
        identity: rows whose null is that each position attends to itself.
        bound: a row is needed if another null raises the model's loss to at least this.
    """
    ground, kinds = evaluator.ground, [kind for kind in NULLS if kind != null]
    shared = [
        torch.minimum(actual, nulls(null, identity, layer, actual, ground)).sum(-1)
        for layer, actual in enumerate(evaluator.patterns)
    ]
    alike = [row for row in rows if float(shared[row.layer][:, row.head][ground.holders(row.query)].mean()) >= INTACT]
    harm = {row: evaluator.losses(Silenced(frozenset([row]), kind) for kind in kinds) for row in alike}
    return [row for row in alike if max(loss.mean for loss in harm[row]) >= bound]
