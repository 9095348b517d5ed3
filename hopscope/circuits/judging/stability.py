"""Whether searches with other seeds, which draw other sequences, find the same circuit.

Two seeds agree if the circuit that each chose is among those that the other lists, so choosing another of several
minimal circuits is no disagreement. If there are too many circuits to list, the chosen one must belong to the other's
family: the same rows, with the other's core. If neither search finds a circuit, they agree if both fail for the same
reason.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hopscope.circuits.circuit import Circuit, as_dicts
from hopscope.circuits.discovery import discover
from hopscope.circuits.exam import Discovery, Watch
from hopscope.models.base import Model
from hopscope.problem.paths import Path
from hopscope.tasks.base import Task

T = TypeVar("T")


@dataclass(frozen=True)
class Stability:
    """The results of searches with several seeds.

    Attributes:
        seeds: the seeds of the searches, that of the reported one first.
        verdicts: the verdict of each search.
        chosen: the paths of the circuit that each search chose.
        agree: the share of pairs of seeds that agree, 0–1.
        jaccard: mean Jaccard similarity of the chosen circuits over pairs of seeds, 0–1.
    """

    seeds: tuple[int, ...]
    verdicts: tuple[str, ...]
    chosen: tuple[frozenset[Path], ...]
    agree: float
    jaccard: float

    def as_dict(self) -> dict[str, Any]:
        """The entry in circuit.json."""
        return {
            "seeds": list(self.seeds),
            "verdicts": list(self.verdicts),
            "circuits": [as_dicts(sorted(paths)) for paths in self.chosen],
            "agree": round(self.agree, 4),
            "jaccard": round(self.jaccard, 4),
        }


def knows(one: Circuit, other: Circuit) -> bool:
    """Whether a search lists the circuit that another chose, or its family holds it; or both failed alike."""
    if one.verdict == other.verdict == "none":
        return too_high(one) == too_high(other)
    lists = {one.units, *(listed.units for listed in one.listed)}
    return other.units in lists or bool(one.family and one.family.holds(other.units))


def too_high(circuit: Circuit) -> set[str]:
    """The tests whose loss may be above the threshold; only `model` if the full model's own loss may be."""
    found = {name for name, loss in circuit.losses.items() if name != "null" and loss.high >= circuit.threshold}
    return {"model"} & found or found


def compared(seeds: Iterable[int], circuits: Iterable[Circuit]) -> Stability:
    """The stability over the results of at least two searches."""
    seeds, found = tuple(seeds), list(circuits)
    pairs = list(itertools.combinations(found, 2))
    alike = [knows(a, b) and knows(b, a) and a.verdict == b.verdict for a, b in pairs]
    paths = tuple(frozenset(f.path for f in circuit.paths) for circuit in found)
    verdicts = tuple(circuit.verdict for circuit in found)
    return Stability(seeds, verdicts, paths, sum(alike) / len(alike), likeness([circuit.units for circuit in found]))


def jaccard(one: frozenset[T], two: frozenset[T]) -> float:
    """|A∩B| / |A∪B|, 0–1; 1 where both are empty."""
    return len(one & two) / len(one | two) if one | two else 1.0


def likeness(circuits: Sequence[frozenset[T]]) -> float:
    """Mean Jaccard similarity over all pairs of circuits, 0–1; NaN for fewer than two circuits."""
    pairs = [jaccard(one, two) for one, two in itertools.combinations(circuits, 2)]
    return sum(pairs) / len(pairs) if pairs else math.nan


def stability(circuit: Circuit, model: Model, task: Task, settings: Discovery, n: int, watch: Watch) -> Stability:
    """Compare a circuit with those of searches with the next n − 1 seeds.

    Args:
        circuit: the circuit that was found with these settings.
        model: the model.
        task: its task.
        settings: the settings of the search.
        n: the total number of seeds, at least two.
        watch: called with a description of each step.
    """
    seeds = range(settings.seed, settings.seed + n)
    others = []
    for seed in seeds[1:]:
        watch(f"searching again, seed {seed}")
        others.append(discover(model, task, settings.but(seed=seed), watch))
    return compared(seeds, [circuit, *others])
