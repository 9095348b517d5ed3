"""ACDC (Conmy et al., 2023) on paths: from the last layer to the first, remove what raises the loss by less than τ.

The greedy walk visits every path once, and a path that is gone stays gone. Its order matters. Layers go from last to
first, as published; within a row the least attended path goes first, which favours ACDC: the attention of removed
paths is spread over what is removed of their row, so whatever goes first goes for free, and were it the path that
matters, the row would stay full of those that do not.

All thresholds walk side by side: those that have come to the same decisions so far share their forward passes, and
layers that are still whole are not computed again. The cost as published, every threshold by itself, is told too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from bench.baselines.base import Clock, Proposal, pruned
from bench.metrics import Yardstick
from hopscope.problem.paths import Path

#: Ten thresholds, a factor of about 2.5 apart: rises of the loss.
THRESHOLDS = tuple(1e-5 * 10 ** (i * 0.4) for i in range(10))
T = TypeVar("T")


def acdc(
    lab: Yardstick,
    seed: int = 0,
    thresholds: Sequence[float] = THRESHOLDS,
    order: Literal["weakest first", "named", "strongest first"] = "weakest first",
) -> list[Proposal]:
    """One circuit per threshold; a path's score is the greatest threshold at which it stayed, 0 if at none.

    Args:
        lab: the model on sequences.
        seed: of nothing; ACDC draws no random numbers.
        thresholds: τ, in the unit of the loss.
        order: of the paths in a row.
    """
    clock, visited = Clock(lab), visits(lab, order)
    measure = lambda removed: [loss.mean for loss in lab.evaluator.losses([pruned(lab, gone) for gone in removed])]  # noqa: E731
    removed = walk(visited, measure, thresholds)
    circuits = tuple(frozenset(visited) - gone for gone in removed)
    stayed = list(zip(thresholds, circuits, strict=True))
    scores = {path: max((t for t, circuit in stayed if path in circuit), default=0.0) for path in visited}
    alone = len(thresholds) * (len(visited) + 1)
    about: dict[str, Any] = {"order": order, "thresholds": list(thresholds), "forwards_alone": alone}
    return [Proposal("ACDC", scores, circuits, clock.cost(), about)]


def walk(
    units: Sequence[T], measure: Callable[[Sequence[frozenset[T]]], list[float]], thresholds: Sequence[float]
) -> list[frozenset[T]]:
    """What is removed at each threshold: whatever makes the measure rise by less than it, given what is gone by then.

    Args:
        units: in the order in which they are tried.
        measure: of the model without each of some sets.
        thresholds: τ, in the unit of the measure.
    """
    removed: list[frozenset[T]] = [frozenset() for _ in thresholds]
    [start] = measure([frozenset()])
    now = [start] * len(thresholds)
    for unit in units:
        tried = list(dict.fromkeys(gone | {unit} for gone in removed))
        found = dict(zip(tried, measure(tried), strict=True))
        for i, threshold in enumerate(thresholds):
            if found[removed[i] | {unit}] - now[i] < threshold:
                removed[i] |= {unit}
                now[i] = found[removed[i]]
    return removed


def visits(lab: Yardstick, order: str) -> list[Path]:
    """All paths in the order in which they are tried."""
    strengths = lab.evaluator.strengths
    sign = {"weakest first": 1.0, "named": 0.0, "strongest first": -1.0}[order]
    return sorted(strengths, key=lambda p: (-p.layer, -p.head, p.query, sign * strengths[p], p))
