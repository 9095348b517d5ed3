"""The two-factor model's four rates, fitted to runs with three starts; the others serve to test its predictions.

The model is fitted to the join attention of layer 0 over training, and to the step at which x1 is learnt, if it is. The
delay is not a free parameter. It is measured on the runs without a prior, as the step at which their first hop is
halfway from predicting 0 to the plateau. The search is random with a fixed seed, so equal tables give equal rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from hopscope_studies.plateau.theory.two_factor import Numbers, Places, TwoFactor, learnt_below, share

STRIDE = 5  # steps that the flow takes at once
DRAWS, KEPT, ROUNDS = 2000, 40, 6
#: Bounds of the search for look_up, join, cost and wear; it starts uniformly in their logarithms.
LOW, HIGH = (0.01, 0.003, 0.005, 0.001), (3.0, 2.0, 1.0, 0.2)
NEVER = 3.0  # penalty, in squared logarithms, if a start learns that should not, or the reverse
JOIN = 40.0  # weight of a mean squared difference of join attentions


@dataclass(frozen=True)
class Seen:
    """The measurements of runs with one start.

    Attributes:
        join: mean join attention of layer 0 by step.
        learnt: the median step at which x1 was learnt; ∞ if it was not.
    """

    join: Mapping[int, float]
    learnt: float


def fitted(
    seen: Mapping[float, Seen], places: Places, hops: int, delay: float, steps: int, cost: bool = True
) -> TwoFactor:
    """The best fit.

    Args:
        seen: the measurements by start.
        places: the positions of the first step's facts.
        hops: D; join attention is measured over all hops.
        delay: steps until answers are the mean of the candidates.
        steps: the number of steps in training.
        cost: whether to include the cost of the other role and the wear; without them the law is 1/p.
    """
    random = numpy.random.default_rng(0)
    low, high = numpy.log(LOW), numpy.log(HIGH)
    tried = random.uniform(low, high, (DRAWS, 4))
    for round in range(ROUNDS):
        misfits = misfit(model_of(tried, places, delay, cost), seen, every_value(places, hops), steps)
        best = tried[numpy.argsort(misfits, kind="stable")[:KEPT]]
        near = best[random.integers(KEPT, size=DRAWS // 2)] + random.normal(0, 0.25 / (1 + round), (DRAWS // 2, 4))
        tried = numpy.clip(numpy.concatenate([best, near]), low, high)
    return model_of(best[0], places, delay, cost)


def model_of(logarithms: Numbers, places: Places, delay: float, cost: bool) -> TwoFactor:
    """The model with these rates, or the models."""
    look_up, join, duty, wear = numpy.exp(logarithms.T)
    return TwoFactor(places, look_up, join, duty * cost, wear * cost, delay)


def every_value(places: Places, hops: int) -> tuple[int, ...]:
    """How many positions each value position of any step sees; join attention is a mean over these."""
    return Places.of(places.chains, hops, "shuffled").values


def misfit(models: TwoFactor, seen: Mapping[float, Seen], values: Sequence[int], steps: int) -> Numbers:
    """The misfit of each of many models."""
    total = numpy.zeros(numpy.shape(models.look_up))
    for start, found in seen.items():
        u, w = models.course(numpy.full(total.shape, start), steps, STRIDE)
        rows = {step // STRIDE: join for step, join in found.join.items()}
        joins = numpy.array(list(rows.values()))[:, None]
        total += JOIN * numpy.square(share(w[list(rows)], values) - joins).mean(0)
        below = models.loss(u, w) < learnt_below(models.places.chains)
        learnt = numpy.where(below.any(0), STRIDE * numpy.maximum(below.argmax(0), 1), math.inf)
        total += distance(learnt, found.learnt)
    return total


def distance(predicted: Numbers, measured: float) -> Numbers:
    """The squared difference of logarithms; `NEVER` if only one of the times is infinite."""
    if math.isinf(measured):
        return numpy.where(numpy.isinf(predicted), 0.0, NEVER)
    finite = numpy.where(numpy.isinf(predicted), measured, predicted)
    return numpy.where(numpy.isinf(predicted), NEVER, numpy.log(finite / measured) ** 2)
