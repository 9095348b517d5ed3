"""The context maintenance and retrieval model of free recall, CMR (Polyn et al., 2009; Ji-An et al., 2024).

Items are studied in order. Each is bound to a context that drifts: after d items a share (1 − β_enc)^(d−1) of it
remains. In recall, the context cues an item, and the item retrieves its own context. A share β_rec of this enters the
present context; γ is the part of it that is the context of study rather than the item itself. Transitions between
recalled items, counted by lag, are the conditional response probability (CRP). The code follows the authors'
(corxyz/icl-cmr, src/est_cmr_crp.py), vectorised over runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy
from jaxtyping import Float, Int

LAGS = 8  # greatest lag on either side
#: Steps of the parameters: a coarser grid than the authors' (0.05 and 0.1).
BETA, GAMMA = 0.1, 0.2
STARTS = 20  # items from which recall may begin


@dataclass(frozen=True, order=True)
class Memory:
    """The parameters of a recall model.

    Attributes:
        encoding: β_enc (0–1], how fast context drifts in study.
        recall: β_rec (0–1), how much of the recalled item's context enters the present one.
        studied: γ (0–1), how much of that is the context in which the item was studied.
    """

    encoding: float
    recall: float
    studied: float


def grid() -> Iterator[Memory]:
    """All recall models that heads are compared with."""
    for encoding in numpy.arange(BETA, 1 + BETA / 2, BETA):
        for recall in numpy.arange(0, 1 + BETA / 2, BETA):
            for studied in numpy.arange(0, 1 + GAMMA / 2, GAMMA):
                yield Memory(*(round(float(value), 3) for value in (encoding, recall, studied)))


def bindings(encoding: float, n_items: int) -> Float[numpy.ndarray, "context item"]:
    """How strongly each item's context cues the item d places on: (1 − β_enc)^(d−1); the last item ends recall."""
    distance = numpy.arange(n_items + 1)[None] - numpy.arange(n_items + 1)[:, None]
    return numpy.where(distance > 0, (1 - encoding) ** numpy.maximum(distance - 1, 0.0), 0.0)


def recalled(
    memory: Memory, n_items: int, n_runs: int, n_recalls: int, random: numpy.random.Generator
) -> Int[numpy.ndarray, "run recall"]:
    """Items in the order of recall, beginning with the starting item; −1 after the end of recall."""
    called = bindings(memory.encoding, n_items)
    now = random.integers(0, STARTS, n_runs)
    context = numpy.eye(n_items + 1)[now]
    found, alive = [now], numpy.ones(n_runs, dtype=bool)
    for _ in range(n_recalls):
        strength = (context @ called).cumsum(1)
        now = (strength < random.random(n_runs)[:, None] * strength[:, -1:]).sum(1).clip(max=n_items)
        alive = alive & (now < n_items)
        found.append(numpy.where(alive, now, -1))
        context = updated(context, now, memory, called)
    return numpy.stack(found, 1)


def updated(
    context: Float[numpy.ndarray, "run context"],
    item: Int[numpy.ndarray, "run"],
    memory: Memory,
    called: Float[numpy.ndarray, "context item"],
) -> Float[numpy.ndarray, "run context"]:
    """The unit-length context after an item is recalled; the last item stands for the end of recall."""
    own = (1 - memory.studied) * numpy.eye(len(called))[item] + memory.studied * called[:, item].T
    mixed = (1 - memory.recall) * context + memory.recall * unit(own)
    return unit(mixed)


def unit(rows: Float[numpy.ndarray, "run context"]) -> Float[numpy.ndarray, "run context"]:
    """Rows of unit length; those of zeros as they are."""
    length = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return rows / numpy.where(length > 0, length, 1)


def transitions(items: Int[numpy.ndarray, "run recall"]) -> Float[numpy.ndarray, "lag"]:
    """Shares of transitions by lag, −8 to +8, among all transitions within these lags."""
    here, there = items[:, :-1].ravel(), items[:, 1:].ravel()
    lags = (there - here)[(here >= 0) & (there >= 0)]
    counts = numpy.bincount(lags[abs(lags) <= LAGS] + LAGS, minlength=2 * LAGS + 1)
    return counts / max(1, counts.sum())


def response_curve(
    memory: Memory, n_items: int = 100, n_runs: int = 200, n_recalls: int = 40, seed: int = 0
) -> Float[numpy.ndarray, "lag"]:
    """The lag curve (CRP) of a model: in closed form if there is one, otherwise from simulated recall."""
    if memory.recall == 1 and memory.studied == 0:
        return in_closed_form(memory.encoding)
    return transitions(recalled(memory, n_items, n_runs, n_recalls, numpy.random.default_rng(seed)))


def in_closed_form(encoding: float) -> Float[numpy.ndarray, "lag"]:
    """The curve for β_rec = 1 and γ = 0, when context is the last item alone: P(d) ∝ (1 − β_enc)^(d−1), d ≥ 1."""
    lags = numpy.arange(-LAGS, LAGS + 1)
    weights = numpy.where(lags > 0, (1 - encoding) ** numpy.maximum(lags - 1, 0.0), 0.0)
    return weights / weights.sum()
