"""How well circuits, and scores of paths, agree with a known truth and with one another (Conmy et al., 2023)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from hopscope.circuits.judging.metrics import Paths, trapezoid
from hopscope.problem.paths import Path


def roc(scores: Mapping[Path, float], truth: Collection[Path]) -> list[tuple[float, float]]:
    """(false, true) positive rates, from (0, 0) to (1, 1), as the threshold on scores falls; equal scores at once."""
    positive, negative = count(scores, truth)
    points = [(fp / max(negative, 1), tp / max(positive, 1)) for tp, fp in accepted(scores, truth)]
    return [(0.0, 0.0), *points, (1.0, 1.0)]


def auroc(scores: Mapping[Path, float], truth: Collection[Path]) -> float:
    """Area under the ROC curve by trapezoids, 0–1; NaN where all paths are true, or none."""
    if not all(count(scores, truth)):
        return math.nan
    false, true = zip(*roc(scores, truth), strict=True)
    return trapezoid(false, true)


def auprc(scores: Mapping[Path, float], truth: Collection[Path]) -> float:
    """Average precision, 0–1: Σ (recall gained) × (precision there); equal scores at once; NaN where none is true."""
    positive, _ = count(scores, truth)
    total, before = 0.0, 0
    for tp, fp in accepted(scores, truth):
        total += (tp - before) * tp / (tp + fp)
        before = tp
    return total / positive if positive else math.nan


def precision_at_truth(scores: Mapping[Path, float], truth: Collection[Path]) -> float:
    """The share of true paths among the |truth| best, 0–1; of equal scores at the border, what chance would take."""
    size, before = len(set(truth)), (0, 0)
    for tp, fp in accepted(scores, truth):
        if tp + fp >= size:
            room = (size - sum(before)) / (tp + fp - sum(before))
            return (before[0] + room * (tp - before[0])) / size if size else math.nan
        before = (tp, fp)
    return before[0] / size if size else math.nan


def count(scores: Mapping[Path, float], truth: Collection[Path]) -> tuple[int, int]:
    """True paths and others among those that have a score."""
    positive = sum(path in truth for path in scores)
    return positive, len(scores) - positive


def accepted(scores: Mapping[Path, float], truth: Collection[Path]) -> list[tuple[int, int]]:
    """True and false positives as the threshold falls, one entry per different score."""
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    found, tp, fp = [], 0, 0
    for _, group in itertools.groupby(ordered, key=lambda item: item[1]):
        members = [path in truth for path, _ in group]
        tp, fp = tp + sum(members), fp + len(members) - sum(members)
        found.append((tp, fp))
    return found


def shd(circuit: Paths, truth: Paths) -> int:
    """Structural Hamming distance: paths in one of the two, but not in the other."""
    return len(circuit ^ truth)


def f1(circuit: Paths, truth: Paths) -> float:
    """Harmonic mean of precision and recall, 0–1; 1 where both are empty. A true path that was missed counts."""
    total = len(circuit) + len(truth)
    return 2 * len(circuit & truth) / total if total else 1.0


def nearest(circuit: Paths, truths: Iterable[Paths]) -> Paths:
    """The true circuit at the least distance: where heads have doubles, there are several."""
    return min(truths, key=lambda truth: (shd(circuit, truth), sorted(truth)))


def jaccard(one: Paths, two: Paths) -> float:
    """|A∩B| / |A∪B|, 0–1; 1 where both are empty."""
    return len(one & two) / len(one | two) if one | two else 1.0


def stability(circuits: Sequence[Paths]) -> float:
    """Mean Jaccard similarity over all pairs of circuits, such as from different data, 0–1; NaN for fewer than two."""
    pairs = [jaccard(one, two) for one, two in itertools.combinations(circuits, 2)]
    return sum(pairs) / len(pairs) if pairs else math.nan
