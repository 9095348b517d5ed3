"""Use: whether the model as it is does what a circuit says.

Where all else is null a route may suffice that the model never takes: a head that others keep asleep wakes up. Such a
path gets next to no attention in the model as it is, and silencing it there moves next to nothing. Both are asked for:
an MLP may be content with either of two heads that do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.circuits.changes import AsIs, Kept, Silenced
from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.losses import Loss
from hopscope.problem.paths import Path

ASLEEP = 0.01  # of its row's attention, and of what all heads move: below both a path is asleep (ours)


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
