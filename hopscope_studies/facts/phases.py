"""Phases of a training, from two loss curves: of the answer's part given by the relation, and by the subject.

Each is divided by the loss of a guess. A part counts as unknown above 0.9 of that, and as known below 0.1 (ours). A
hallucination phase is a stretch in which the relation's part is known and the subject's unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

UNKNOWN, KNOWN = 0.9, 0.1  # shares of the loss of knowing nothing


def stretch(steps: Sequence[float], inside: NDArray[numpy.bool_]) -> tuple[float, float]:
    """First and last step of the longest run of points that are inside; NaN if there is none."""
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[False], inside, [False]]).astype(int)))
    runs = edges.reshape(-1, 2)
    if not len(runs):
        return float("nan"), float("nan")
    begin, end = max(runs, key=lambda run: steps[run[1] - 1] - steps[run[0]])
    return float(steps[begin]), float(steps[end - 1])


def phases(
    steps: Sequence[float],
    relation_only: NDArray[numpy.float64],
    subject_only: NDArray[numpy.float64],
    chance: tuple[float, float],
) -> dict[str, tuple[float, float]]:
    """First and last step of every phase; NaN for a phase that does not occur.

    Args:
        steps: the steps at which the losses are given.
        relation_only: loss of the part of the answer that the relation determines.
        subject_only: loss of the part that the subject determines.
        chance: the loss of a guess for each part, ln R and ln D.
    """
    relation, subject = relation_only / chance[0], subject_only / chance[1]
    return {
        "nothing known": stretch(steps, (relation > UNKNOWN) & (subject > UNKNOWN)),
        "hallucination": stretch(steps, (relation < KNOWN) & (subject > UNKNOWN)),
        "all known": stretch(steps, (relation < KNOWN) & (subject < KNOWN)),
    }
