"""Whether other seeds of the search, and so other sequences, come to the same circuit.

Two seeds agree if what the one chose is among the circuits that the other lists: alternatives are no disagreement.
Where there are too many to list, it must be one of the other's family: of the same rows, with the other's core. Of a
model without a circuit none is claimed, so two seeds agree if both say so for the same reason.
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
    """What several searches came to.

    Attributes:
        seeds: of the searches, the reported one first.
        verdicts: of each.
        chosen: by each, its paths.
        agree: the share of pairs of seeds that agree, 0–1.
        jaccard: the mean over pairs of what two chosen circuits share, of all that they hold, 0–1.
    """

    seeds: tuple[int, ...]
    verdicts: tuple[str, ...]
    chosen: tuple[frozenset[Path], ...]
    agree: float
    jaccard: float

    def as_dict(self) -> dict[str, Any]:
        """As in circuit.json."""
        return {
            "seeds": list(self.seeds),
            "verdicts": list(self.verdicts),
            "circuits": [as_dicts(sorted(paths)) for paths in self.chosen],
            "agree": round(self.agree, 4),
            "jaccard": round(self.jaccard, 4),
        }


def knows(one: Circuit, other: Circuit) -> bool:
    """Whether a search lists what another chose, or tells of a family that holds it; or neither has a circuit."""
    if one.verdict == other.verdict == "none":
        return too_high(one) == too_high(other)
    lists = {one.units, *(listed.units for listed in one.listed)}
    return other.units in lists or bool(one.family and one.family.holds(other.units))


def too_high(circuit: Circuit) -> set[str]:
    """The tests in which a loss may be above the threshold; `model` alone, if the model's own may."""
    losses = circuit.losses.items()
    found = {name for name, loss in losses if name != "null" and loss.high >= circuit.threshold}
    return {"model"} & found or found


def compared(seeds: Iterable[int], circuits: Iterable[Circuit]) -> Stability:
    """Two searches or more, against each other."""
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
    """Mean Jaccard similarity over all pairs of circuits, such as from different data, 0–1; NaN for fewer than two."""
    pairs = [jaccard(one, two) for one, two in itertools.combinations(circuits, 2)]
    return sum(pairs) / len(pairs) if pairs else math.nan


def stability(circuit: Circuit, model: Model, task: Task, settings: Discovery, n: int, watch: Watch) -> Stability:
    """A circuit against those of n − 1 further seeds, the next ones after its own.

    Args:
        circuit: found with the settings.
        model: of which.
        task: for which.
        settings: of the search.
        n: how many seeds in all, at least two.
        watch: told in words what is being done.
    """
    seeds = range(settings.seed, settings.seed + n)
    others = []
    for seed in seeds[1:]:
        watch(f"searching again, seed {seed}")
        others.append(discover(model, task, settings.but(seed=seed), watch))
    return compared(seeds, [circuit, *others])
