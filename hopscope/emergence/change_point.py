"""The change point of a curve: the middle of the logistic rise that fits it best (our measure).

Its 95 % interval covers the choice of sequences, and how well a single rise describes the curve. It does not cover
how another seed would have trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from hopscope.core.intervals import Z_95, student
from hopscope.emergence.onset import INTERVAL, Array, check

LEAST_RISE = 0.1  # attention; a smaller fitted rise does not count (our choice)
LEAST_EXPLAINED = 0.5  # share of the curve's variance that a fit must explain to be reported (our choice)
FITTED = 5  # checkpoints that a fit of four parameters needs
CENTRES, WIDTHS = 400, 20  # size of the grid: at most so many centres, exactly so many widths
ALONG = 8  # centres between two checkpoints
LOGIT_90 = 4.394  # widths in which a logistic curve goes from 10 % to 90 % of its rise


@dataclass(frozen=True)
class ChangePoint:
    """The rise that fits a curve best: a logistic step, fitted by least squares.

    Attributes:
        step: the middle of the rise.
        low: lower end of the middle's 95 % interval.
        high: upper end of that interval.
        width: steps from 10 % to 90 % of the rise.
        floor: the level before.
        ceiling: the level after.
        explained: the share of the curve's variance that the fit explains, 0–1.
    """

    step: float
    low: float
    high: float
    width: float
    floor: float
    ceiling: float
    explained: float


def change_point(
    steps: Sequence[int], curve: Array, resampled: Array | None = None, seed: int = 0
) -> ChangePoint | None:
    """The logistic step, floor + (ceiling − floor) / (1 + exp(−(t − step) / width)), that fits a curve best.

    The interval is a bootstrap. Each sample is the curve over resampled sequences, plus normal noise at every
    checkpoint, as large as the fit's residuals (n − 4 degrees of freedom for n checkpoints, and Student's t). The
    resampling covers the choice of sequences, which is the same at all checkpoints. The noise covers all other
    departures from a single rise, such as the noise of training. What belongs to both is counted twice. On synthetic
    rises the interval covers the truth in 93 to 99 of 100 cases (docs/emergence.md); noise that is much stronger within
    the rise than outside is underestimated. If fewer than two checkpoints fall within the rise, the interval reaches at
    least to the checkpoints around it.

    Args:
        steps: of the checkpoints, increasing.
        curve: mean attention at each, 0–1.
        resampled: the curve over resampled sequences, (sample, step); by default the curve itself, 200 times.
        seed: of the noise.

    Returns:
        None with fewer than five checkpoints, or if no single rise of at least 0.1 explains half of the variance.

    Raises:
        BadInput: as `onset` does.
    """
    check(steps, curve)
    if len(steps) < FITTED or not numpy.ptp(curve):
        return None
    times = numpy.asarray(steps, float)
    grid = Grid(times)
    fit = grid.best(curve)
    if fit is None or fit.ceiling - fit.floor < LEAST_RISE or fit.explained < LEAST_EXPLAINED:
        return None
    samples = numpy.repeat(curve[None], 200, 0) if resampled is None else resampled
    freedom = len(times) - 4
    residual = numpy.sqrt(((curve - fit.at(times)) ** 2).sum() / freedom) * student(freedom) / Z_95
    noise = residual * numpy.random.default_rng(seed).standard_normal(samples.shape)
    low, high = numpy.quantile(grid.centres_of(samples + noise), INTERVAL)
    width = fit.width * LOGIT_90
    inside = (numpy.abs(times - fit.step) < width / 2).sum()
    if inside < 2:
        low, high = min(low, times[times <= fit.step][-1]), max(high, times[times >= fit.step][0])
    return ChangePoint(fit.step, float(low), float(high), width, fit.floor, fit.ceiling, fit.explained)


@dataclass(frozen=True)
class Logistic:
    """A logistic step; `width` is its time scale, in steps."""

    step: float
    width: float
    floor: float
    ceiling: float
    explained: float

    def at(self, times: Array) -> Array:
        return self.floor + (self.ceiling - self.floor) * logistic((times - self.step) / self.width)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(−x)), without overflow."""
    return 0.5 * (1 + numpy.tanh(x / 2))


class Grid:
    """The logistic steps that are tried on curves over the same checkpoints.

    Given middle and width, floor and ceiling follow by linear least squares. So the best fit is the step whose shape,
    centred and scaled to norm 1, has the largest dot product with the curve. One matrix product fits a thousand curves.

    Args:
        times: the steps of the checkpoints.
    """

    def __init__(self, times: Array):
        self.times = times
        along = max(1, min(ALONG, CENTRES // (len(times) - 1)))
        parts = [numpy.linspace(a, b, along, endpoint=False) for a, b in itertools.pairwise(times)]
        self.centres = numpy.concatenate(parts)[1 :: 1 + (len(times) - 2) // CENTRES]
        self.widths = numpy.geomspace(numpy.diff(times).min() / 8, (times[-1] - times[0]) / 8, WIDTHS)
        shape = logistic((times - self.centres[:, None]) / self.widths[:, None, None])  # width centre time
        centred = shape - shape.mean(-1, keepdims=True)
        self.shapes = centred / numpy.linalg.norm(centred, axis=-1, keepdims=True).clip(1e-12)

    def best(self, curve: Array) -> Logistic | None:
        """The best rising step of one curve; None if every fit falls."""
        scores = self.shapes @ (curve - curve.mean())
        width, centre = numpy.unravel_index(int(scores.argmax()), scores.shape)
        if scores[width, centre] <= 0:
            return None
        middle = float(self.refined(scores[width][None], numpy.array([centre]))[0])
        shape = logistic((self.times - middle) / self.widths[width])
        slope, floor = numpy.polyfit(shape, curve, 1)
        unexplained = ((curve - floor - slope * shape) ** 2).sum() / ((curve - curve.mean()) ** 2).sum()
        return Logistic(middle, float(self.widths[width]), float(floor), float(floor + slope), float(1 - unexplained))

    def centres_of(self, curves: Array) -> Array:
        """The middle of each curve's best step, (sample,)."""
        centred = (curves - curves.mean(1, keepdims=True)).T
        rows = numpy.arange(len(curves))
        best = numpy.full(len(curves), -numpy.inf)
        centres = numpy.zeros(len(curves))
        for shapes in self.shapes:  # one width at a time keeps the products small
            scores = (shapes @ centred).T
            centre = scores.argmax(1)
            better = scores[rows, centre] > best
            best = numpy.where(better, scores[rows, centre], best)
            centres = numpy.where(better, self.refined(scores, centre), centres)
        return centres

    def refined(self, scores: Array, centre: NDArray[numpy.int64]) -> Array:
        """The vertex of the parabola through the best score and its neighbours; (sample centre) and (sample,)."""
        inner = centre.clip(1, len(self.centres) - 2)
        rows = numpy.arange(len(scores))
        x = numpy.stack([self.centres[inner + shift] for shift in (-1, 0, 1)])
        y = numpy.stack([scores[rows, inner + shift] for shift in (-1, 0, 1)])
        left, right = x[1] - x[0], x[2] - x[1]
        slope_left, slope_right = (y[1] - y[0]) / left, (y[2] - y[1]) / right
        bend = slope_left - slope_right
        vertex = (x[0] + x[1]) / 2 + slope_left * (left + right) / 2 / numpy.where(bend > 0, bend, 1.0)
        usable = (bend > 0) & (inner == centre)
        return numpy.where(usable, vertex.clip(x[0], x[2]), self.centres[centre])
