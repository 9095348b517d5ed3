"""How well circuits agree with a known truth and with one another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hopscope.circuits.judging.metrics import Paths

T = TypeVar("T")


def shd(circuit: Paths, truth: Paths) -> int:
    """Structural Hamming distance: paths in one of the two, but not in the other."""
    return len(circuit ^ truth)


def nearest(circuit: Paths, truths: Iterable[Paths]) -> Paths:
    """The true circuit at the least distance: where heads have doubles, there are several."""
    return min(truths, key=lambda truth: (shd(circuit, truth), sorted(truth)))


def jaccard(one: frozenset[T], two: frozenset[T]) -> float:
    """|A∩B| / |A∪B|, 0–1; 1 where both are empty."""
    return len(one & two) / len(one | two) if one | two else 1.0


def stability(circuits: Sequence[frozenset[T]]) -> float:
    """Mean Jaccard similarity over all pairs of circuits, such as from different data, 0–1; NaN for fewer than two."""
    pairs = [jaccard(one, two) for one, two in itertools.combinations(circuits, 2)]
    return sum(pairs) / len(pairs) if pairs else math.nan
