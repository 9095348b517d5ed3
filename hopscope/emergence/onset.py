"""When a curve rises: the paper's rule, a change point, and when silencing begins to cost (Musat, ICLR 2025, 9).

A curve is known at checkpoints alone. The paper draws straight lines between them and takes the first step at which
the mean attention goes above 0.5 (section 9.1); the change point and the causal onset are ours. Intervals are 95 %:
they say how much the answer depends on which sequences were measured, and, for the change point, on how well a single
rise describes the curve. They do not say how another seed would have trained: that takes several runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy
from numpy.typing import NDArray

from hopscope.core.settings import BadInput

Array = NDArray[numpy.float64]
#: Whether a passing was seen between two checkpoints, had happened by the first, or had not by the last.
Status = Literal["seen", "already", "never"]

PASSES = 0.5  # mean attention above which a path has emerged (paper, section 9.1)
HALF = 0.5  # share of its last effect at which a path has begun to matter (ours)
INTERVAL = (0.025, 0.975)
LEAST_RISE = 0.1  # of attention: a fitted rise that is smaller is none (ours)
LEAST_EXPLAINED = 0.5  # share of the curve's variance: of a fit that explains less nothing is reported (ours)
FITTED = 5  # checkpoints that a fit of four numbers needs
CENTRES, WIDTHS = 400, 20  # of the fit's grid, at most and exactly
ALONG = 8  # centres tried between two checkpoints
LOGIT_90 = 4.394  # a logistic curve goes from 10 % to 90 % of its rise in so many widths
NORMAL_975 = 1.95996
#: Student's t at 97.5 %, for 1, 2, … degrees of freedom; from there on by Cornish and Fisher's series.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Onset:
    """When a curve first passed a threshold.

    Attributes:
        status: `seen`; `already`, above it at the first checkpoint (censored on the left); `never`, not above it at any
            (censored on the right).
        step: linearly interpolated, if it was seen; else None.
        low: lower end of its interval over resampled sequences; None: before the first checkpoint, or not known.
        high: its upper end; None: after the last checkpoint, or not known.
        after: the last checkpoint not above the threshold before the passing: `step` lies behind it. None if `already`.
        by: the first checkpoint above it. None if `never`.
        falls: how often the curve went back below the threshold afterwards.
    """

    status: Status
    step: float | None
    low: float | None
    high: float | None
    after: int | None
    by: int | None
    falls: int

    def as_dict(self) -> dict[str, Any]:
        """As in emergence.json."""
        return rounded(asdict(self))


@dataclass(frozen=True)
class Change:
    """The one rise that describes a curve best: a logistic step, fitted by least squares.

    Attributes:
        step: its middle.
        low: lower end of the interval of the middle.
        high: its upper end.
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

    def as_dict(self) -> dict[str, Any]:
        """As in emergence.json."""
        return rounded(asdict(self))


@dataclass(frozen=True)
class Causal:
    """When silencing a path begins to raise the loss.

    Attributes:
        onset: of half of the last checkpoint's effect; `never` where that is not above 0 for certain, or negligible.
        hurts_from: the first checkpoint from which on the effect's interval stays above 0, however small the effect;
            None if it is not above 0 at the last.
        effect: at the last checkpoint: loss silenced − loss as is.
        low: lower end of that effect's interval, paired over sequences.
        high: its upper end.
    """

    onset: Onset
    hurts_from: int | None
    effect: float
    low: float
    high: float

    def as_dict(self) -> dict[str, Any]:
        """As in emergence.json."""
        return rounded({**asdict(self), "onset": self.onset.as_dict()})


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Numbers of a result as they are stored: four decimals are far below any interval here."""
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}


def resamples(n: int, count: int, seed: int) -> Array:
    """How often each of n sequences is drawn in each of `count` bootstrap samples, (count, n).

    One such table serves all curves of a run, so that their differences are paired.
    """
    random = numpy.random.default_rng(seed)
    return random.multinomial(n, numpy.full(n, 1 / n), size=count).astype(numpy.float64)


def student(freedom: int) -> float:
    """Student's t at 97.5 %; beyond the table to three digits."""
    if freedom <= len(T_975):
        return T_975[freedom - 1]
    z, f = NORMAL_975, freedom
    return z + (z**3 + z) / (4 * f) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f * f)


# Passing a threshold ---------------------------------------------------------------------------------------------


def onset(
    steps: Sequence[int],
    curve: Array,
    threshold: float = PASSES,
    resampled: Array | None = None,
    low: Array | None = None,
) -> Onset:
    """When a curve first goes above a threshold.

    Args:
        steps: of the checkpoints, increasing, at least two.
        curve: its value at each; finite.
        threshold: in the units of the curve.
        resampled: the same curve over resampled sequences, (sample, step); without it there is no interval.
        low: thresholds of the resampled curves, one each; by default the same for all.

    Raises:
        BadInput: steps do not increase, or numbers do not match them or are not finite.
    """
    check(steps, curve)
    above = curve > threshold
    ends: tuple[float | None, float | None] = (None, None)
    if resampled is not None:
        limits = numpy.full(len(resampled), threshold) if low is None else low
        ends = interval_of(passing(steps, resampled, limits))
    falls = int((above[:-1] & ~above[1:]).sum())
    if not above.any():
        return Onset("never", None, *ends, int(steps[-1]), None, 0)
    first = int(above.argmax())
    if first == 0:
        return Onset("already", None, *ends, None, int(steps[0]), falls)
    step = float(passing(steps, curve[None], numpy.array([threshold]))[0])
    return Onset("seen", step, *ends, int(steps[first - 1]), int(steps[first]), falls)


def passing(steps: Sequence[int], curves: Array, thresholds: Array) -> Array:
    """Where each curve first goes above its threshold, interpolated; −∞ if it begins there, ∞ if it never does."""
    times, rows = numpy.asarray(steps, float), numpy.arange(len(curves))
    above = curves > thresholds[:, None]
    first = above.argmax(1)
    before, after = curves[rows, first - 1], curves[rows, first]
    rise = numpy.where(after > before, after - before, 1.0)
    step = times[first - 1] + (thresholds - before) / rise * (times[first] - times[first - 1])
    return numpy.where(above.any(1), numpy.where(first > 0, step, -numpy.inf), numpy.inf)


def interval_of(values: Array) -> tuple[float | None, float | None]:
    """The middle 95 % of some passings; None for an end that lies outside the checkpoints."""
    ends = numpy.quantile(values, INTERVAL, method="nearest")
    low, high = (float(end) if numpy.isfinite(end) else None for end in ends)
    return low, high


def check(steps: Sequence[int], curve: Array) -> None:
    """Whether there is a curve here. Raises BadInput."""
    if len(steps) < 2 or len(steps) != len(curve):
        raise BadInput(f"a curve needs a value at each of at least two steps; got {len(steps)} and {len(curve)}")
    if (numpy.diff(steps) <= 0).any():
        raise BadInput(f"the steps of a curve must increase; got {', '.join(map(str, steps))}")
    if not numpy.isfinite(curve).all():
        raise BadInput(f"the curve is not finite at step {steps[int((~numpy.isfinite(curve)).argmax())]}")


# The change point ------------------------------------------------------------------------------------------------


def change_point(steps: Sequence[int], curve: Array, resampled: Array | None = None, seed: int = 0) -> Change | None:
    """The logistic step, floor + (ceiling − floor) / (1 + exp(−(t − step) / width)), that fits a curve best.

    The interval is a bootstrap: each sample is the curve over resampled sequences, plus normal noise at every
    checkpoint, as strong as what the fit leaves (n − 4 degrees of freedom for n checkpoints, and Student's t).
    The first part holds what sequences share over time, the second whatever else strays from one rise, such as the
    noise of training; what is in both is counted twice. On synthetic rises it covers in 93 to 99 of 100 cases
    (docs/emergence.md); noise that is much stronger within the rise than beside it is underestimated. Where fewer than
    two checkpoints fall within the rise, the interval reaches at least to the checkpoints around it: between them
    nothing is known.

    Args:
        steps: of the checkpoints, increasing.
        curve: mean attention at each, 0–1.
        resampled: the same over resampled sequences, (sample, step); by default the curve itself, 200 times.
        seed: of the noise.

    Returns:
        None with fewer than five checkpoints, and where no single rise of at least 0.1 explains half of the variance.

    Raises:
        BadInput: as `onset` does.
    """
    check(steps, curve)
    if len(steps) < FITTED or not numpy.ptp(curve):
        return None
    times = numpy.asarray(steps, float)
    grid = Grid(times)
    fit, centre = grid.best(curve)
    if fit is None or fit.ceiling - fit.floor < LEAST_RISE or fit.explained < LEAST_EXPLAINED:
        return None
    samples = numpy.repeat(curve[None], 200, 0) if resampled is None else resampled
    freedom = len(times) - 4
    left = numpy.sqrt(((curve - fit.at(times)) ** 2).sum() / freedom) * student(freedom) / NORMAL_975
    noise = left * numpy.random.default_rng(seed).standard_normal(samples.shape)
    low, high = numpy.quantile(grid.centres_of(samples + noise), INTERVAL)
    inside = (numpy.abs(times - centre) < fit.width * LOGIT_90 / 2).sum()
    if inside < 2:
        low, high = min(low, times[times <= centre][-1]), max(high, times[times >= centre][0])
    width = fit.width * LOGIT_90
    return Change(centre, float(low), float(high), width, fit.floor, fit.ceiling, fit.explained)


@dataclass(frozen=True)
class Logistic:
    """A logistic step; `width` is its unit of time."""

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
    """All logistic steps that are tried on curves over the same checkpoints.

    Given middle and width, floor and ceiling follow by linear least squares; so the best fit is the step whose shape,
    centred and scaled to length 1, has the largest product with the curve. One matrix product fits a thousand curves.

    Args:
        times: the checkpoints.
    """

    def __init__(self, times: Array):
        self.times = times
        along = max(1, min(ALONG, CENTRES // (len(times) - 1)))
        parts = [numpy.linspace(a, b, along, endpoint=False) for a, b in itertools.pairwise(times)]
        self.centres = numpy.concatenate(parts)[1:]
        self.widths = numpy.geomspace(numpy.diff(times).min() / 8, (times[-1] - times[0]) / 8, WIDTHS)
        shape = logistic((times - self.centres[:, None]) / self.widths[:, None, None])  # width centre time
        centred = shape - shape.mean(-1, keepdims=True)
        self.shapes = centred / numpy.linalg.norm(centred, axis=-1, keepdims=True).clip(1e-12)

    def best(self, curve: Array) -> tuple[Logistic | None, float]:
        """The best rising step of one curve, and its middle, refined; None where every fit falls."""
        scores = self.shapes @ (curve - curve.mean())
        width, centre = numpy.unravel_index(int(scores.argmax()), scores.shape)
        if scores[width, centre] <= 0:
            return None, float("nan")
        middle = float(self.refined(scores[width][None], numpy.array([centre]))[0])
        shape = logistic((self.times - middle) / self.widths[width])
        slope, floor = numpy.polyfit(shape, curve, 1)
        left = ((curve - floor - slope * shape) ** 2).sum() / ((curve - curve.mean()) ** 2).sum()
        found = Logistic(middle, float(self.widths[width]), float(floor), float(floor + slope), float(1 - left))
        return found, middle

    def centres_of(self, curves: Array) -> Array:
        """The middle of the best step of each curve, (sample,)."""
        centred = (curves - curves.mean(1, keepdims=True)).T
        rows = numpy.arange(len(curves))
        best = numpy.full(len(curves), -numpy.inf)
        found = numpy.zeros(len(curves))
        for shapes in self.shapes:  # one width at a time keeps the products small
            scores = (shapes @ centred).T
            centre = scores.argmax(1)
            better = scores[rows, centre] > best
            best = numpy.where(better, scores[rows, centre], best)
            found = numpy.where(better, self.refined(scores, centre), found)
        return found

    def refined(self, scores: Array, centre: NDArray[numpy.int64]) -> Array:
        """The vertex of the parabola through the best score and its neighbours, (sample centre) and (sample,)."""
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


# The causal onset ------------------------------------------------------------------------------------------------


def causal_onset(steps: Sequence[int], effects: Array, weights: Array, least: float = 0.0) -> Causal:
    """When silencing a path begins to raise the loss.

    Args:
        steps: of the checkpoints, increasing.
        effects: what silencing adds to the loss of each sequence at each checkpoint, (sequence, step).
        weights: of the sequences in each bootstrap sample, (sample, sequence), from `resamples`.
        least: a last effect below this is none, however certain: with enough sequences every effect is.

    Raises:
        BadInput: as `onset` does.
    """
    mean, resampled = effects.mean(0), weights @ effects / weights.sum(1, keepdims=True)
    check(steps, mean)
    low, high = numpy.quantile(resampled, INTERVAL, axis=0)
    stays = numpy.logical_and.accumulate((low > 0)[::-1])[::-1]
    hurts_from = int(steps[int(stays.argmax())]) if stays.any() else None
    if hurts_from is None or mean[-1] < least:
        when = Onset("never", None, None, None, int(steps[-1]), None, 0)
    else:
        when = onset(steps, mean, HALF * mean[-1], resampled, HALF * resampled[:, -1])
    return Causal(when, hurts_from, float(mean[-1]), float(low[-1]), float(high[-1]))
