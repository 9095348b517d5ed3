"""What baselines share: what they propose, what it cost, and how the smallest circuit of a proposal is found.

A baseline is a function named like its file. It takes a `Yardstick` (the model, the sequences, the null) and a seed,
and returns proposals: each an order of all paths, or circuits outright. `smallest` then looks for the least circuit
under a threshold, for all of them by the same tiled evaluator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bench.baselines.gates import Gates
from bench.metrics import Paths, Yardstick
from hopscope.circuits.evaluator import Change, Kept, Pattern
from hopscope.circuits.search import shortest
from hopscope.circuits.units import NO_ROLE, Ground
from hopscope.problem.paths import Path

NEAR = 8  # sizes on either side of where a bisection ends that are looked at, for losses are not quite monotone


@dataclass(frozen=True)
class Cost:
    """What a search took.

    Attributes:
        forwards: forward passes over the whole set of sequences.
        backwards: backward passes over the whole set; a part of the set counts as its share.
        seconds: by the clock.
    """

    forwards: float = 0.0
    backwards: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.forwards + other.forwards, self.backwards + other.backwards, round(self.seconds + other.seconds, 3)
        )


@dataclass(frozen=True)
class Proposal:
    """What a baseline says.

    Attributes:
        name: of the baseline, and which variant of it.
        scores: of every path; the higher, the more it matters.
        circuits: found outright; empty where the prefixes of the order are meant.
        cost: of all this; a cost that several proposals share is with the first of them.
        about: settings on which it depends.
    """

    name: str
    scores: Mapping[Path, float]
    circuits: tuple[Paths, ...] = ()
    cost: Cost = Cost()
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> list[Path]:
        """All paths, the most important first; equal scores by name."""
        return sorted(self.scores, key=lambda path: (-self.scores[path], path))


Baseline = Callable[[Yardstick, int], list[Proposal]]


class Clock:
    """Counts what is spent on an evaluator from now on."""

    def __init__(self, lab: Yardstick):
        self.evaluator, self.forwards = lab.evaluator, lab.evaluator.forwards
        self.began = time.monotonic()

    def cost(self, *gates: Gates) -> Cost:
        """What has been spent so far, by the evaluator and by gates."""
        forwards = self.evaluator.forwards - self.forwards + sum(g.forwards for g in gates)
        return Cost(forwards, sum(g.backwards for g in gates), round(time.monotonic() - self.began, 3))


# The smallest circuit --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Smallest:
    """The smallest circuit of a proposal under a threshold.

    Attributes:
        circuit: its paths; None if none is under the threshold.
        loss: its loss on the search's own sequences, NaN if there is none.
        cost: of looking for it.
    """

    circuit: Paths | None
    loss: float
    cost: Cost


def smallest(proposal: Proposal, lab: Yardstick, threshold: float, near: int = NEAR) -> Smallest:
    """The smallest proposed circuit, or prefix of the order, whose loss is under the threshold.

    Prefixes are bisected, and every size near the border is looked at, since losses are not quite monotone; a prefix
    that is much smaller and passes while larger ones fail can be missed.

    Args:
        proposal: a baseline's.
        lab: how circuits are run.
        threshold: of the loss.
        near: how many sizes below the border are looked at.
    """
    clock = Clock(lab)
    if proposal.circuits:
        circuits: Sequence[Paths] = sorted(set(proposal.circuits), key=len)
        losses = lab.losses(circuits)
    else:
        border = shortest(proposal.order, lambda paths: lab.losses([paths])[0] < threshold)
        circuits = [frozenset(proposal.order[:size]) for size in range(max(0, border - near), border + 1)]
        losses = lab.losses(circuits)
    passing = [(len(c), loss, c) for c, loss in zip(circuits, losses, strict=True) if loss < threshold]
    if not passing:
        return Smallest(None, math.nan, clock.cost())
    _, loss, circuit = min(passing, key=lambda entry: entry[:2])
    return Smallest(circuit, loss, clock.cost())


# Changes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pruned(Change):
    """A circuit of which the first layers are complete: they are the model's own, and need not be computed again."""

    kept: Kept
    first: float

    @property
    def first_layer(self) -> float:
        return self.first

    def pattern(self, layer: int, actual: Pattern, ground: Ground) -> Pattern:
        return self.kept.pattern(layer, actual, ground)


def pruned(lab: Yardstick, removed: Iterable[Path]) -> Change:
    """The model without some paths, in the sense of `Kept`: what their row lacks falls on what is removed of it."""
    removed = frozenset(removed)
    kept = Kept(frozenset(lab.evaluator.ground.paths) - removed | lab.always, lab.null)
    first = min((path.layer for path in removed), default=len(lab.evaluator.layers))
    return Pruned(kept, first if covered(lab.evaluator.ground) else 0)


def covered(ground: Ground) -> bool:
    """Whether all that positions see is on some path, so that keeping all paths is keeping the model."""
    if NO_ROLE in ground.query_roles:
        return False
    on_some = torch.stack([ground.entries(Path(0, 0, *kind)) for kind in ground.kinds]).any(0)
    return bool((on_some == ground.sees).all())


def signed_and_absolute(name: str, harms: Mapping[Path, float], cost: Cost, **about: Any) -> list[Proposal]:
    """Two proposals from what the loss is thought to rise by when a path is removed: by value, and by magnitude."""
    signed = Proposal(f"{name} (signed)", harms, cost=cost, about=about)
    absolute = {path: abs(value) for path, value in harms.items()}
    return [signed, Proposal(f"{name} (absolute)", absolute, about=about)]
