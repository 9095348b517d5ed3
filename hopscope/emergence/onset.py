"""When a curve rises: by the paper's rule, and when silencing a path begins to cost (Musat, ICLR 2025, section 9).

A curve is known only at checkpoints. The paper joins them by straight lines and takes the first step at which the mean
attention exceeds 0.5 (section 9.1); the causal onset is ours. Intervals are 95 %. They cover the choice of
sequences, and everything that may have happened between two checkpoints (`hopscope.emergence.refine` looks there). They
do not cover how another seed would have trained, which takes several runs. `hopscope.emergence.change_point` fits the
rise that describes a curve best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy
from numpy.typing import NDArray

from hopscope.core.settings import BadInput

Array = NDArray[numpy.float64]
#: Whether the threshold was passed between two checkpoints, before the first, or not by the last.
Status = Literal["seen", "already", "never"]

PASSES = 0.5  # mean attention above which a path has emerged (paper, section 9.1)
HALF = 0.5  # share of its final effect at which a path has begun to matter (our choice)
INTERVAL = (0.025, 0.975)


@dataclass(frozen=True)
class Onset:
    """The step at which a curve first passed a threshold, with its interval.

    Attributes:
        status: `seen`; `already`, above it at the first checkpoint (left-censored); `never`, above it at no checkpoint
            (right-censored).
        step: the passing, linearly interpolated, if it was seen; else None.
        low: lower end of its interval, over resampled sequences and the time between two checkpoints; None: before
            the first checkpoint, or unknown.
        high: upper end; None: after the last checkpoint, or unknown.
        after: the last checkpoint before the passing; None if `already`.
        by: the first checkpoint above the threshold; None if `never`.
        falls: how often the curve fell below the threshold again.
    """

    status: Status
    step: float | None
    low: float | None
    high: float | None
    after: int | None
    by: int | None
    falls: int


@dataclass(frozen=True)
class Causal:
    """The step at which silencing a path begins to raise the loss, with the final effect.

    Attributes:
        onset: when half of the last checkpoint's effect is reached; `never` if that effect is not significantly above
            0, or is negligible.
        hurts_from: the first checkpoint from which the effect's interval stays above 0, however small the effect;
            None if it is not above 0 at the last.
        effect: the effect at the last checkpoint: the loss with the path silenced minus the loss without.
        low: lower end of that effect's interval, paired over sequences.
        high: upper end of that interval.
    """

    onset: Onset
    hurts_from: int | None
    effect: float
    low: float
    high: float


def resamples(n: int, count: int, seed: int) -> Array:
    """How often each of n sequences is drawn in each of `count` bootstrap samples, (count, n).

    One such array serves all curves of a run, so that their differences are paired.
    """
    random = numpy.random.default_rng(seed)
    return random.multinomial(n, numpy.full(n, 1 / n), size=count).astype(numpy.float64)


# Passing a threshold ---------------------------------------------------------------------------------------------


def onset(
    steps: Sequence[int],
    curve: Array,
    threshold: float = PASSES,
    resampled: Array | None = None,
    low: Array | None = None,
) -> Onset:
    """Find the step at which a curve first goes above a threshold.

    Args:
        steps: of the checkpoints, increasing, at least two.
        curve: its value at each checkpoint; finite.
        threshold: in the units of the curve.
        resampled: the curve over resampled sequences, (sample, step); without it the interval covers only the time
            between checkpoints.
        low: thresholds of the resampled curves, (sample,); by default `threshold`.

    Raises:
        BadInput: steps do not increase, or values do not match them or are not finite.
    """
    check(steps, curve)
    above = curve > threshold
    samples = curve[None] if resampled is None else resampled
    limits = numpy.full(len(samples), threshold) if low is None else low
    ends = interval_of(*gaps(steps, samples, limits))
    falls = int((above[:-1] & ~above[1:]).sum())
    if not above.any():
        return Onset("never", None, *ends, int(steps[-1]), None, 0)
    first = int(above.argmax())
    if first == 0:
        return Onset("already", None, *ends, None, int(steps[0]), falls)
    step = float(passing(steps, curve[None], numpy.array([threshold]))[0])
    return Onset("seen", step, *ends, int(steps[first - 1]), int(steps[first]), falls)


def passing(steps: Sequence[float], curves: Array, thresholds: Array) -> Array:
    """Where each curve first exceeds its threshold, interpolated; −∞ if it starts above it, ∞ if it never does."""
    times, rows = numpy.asarray(steps, float), numpy.arange(len(curves))
    above = curves > thresholds[:, None]
    first = above.argmax(1)
    before, after = curves[rows, first - 1], curves[rows, first]
    rise = numpy.where(after > before, after - before, 1.0)
    step = times[first - 1] + (thresholds - before) / rise * (times[first] - times[first - 1])
    return numpy.where(above.any(1), numpy.where(first > 0, step, -numpy.inf), numpy.inf)


def gaps(steps: Sequence[int], curves: Array, thresholds: Array) -> tuple[Array, Array]:
    """The checkpoints between which each curve first exceeds its threshold; −∞ and ∞ beyond the first and last."""
    times = numpy.concatenate([[-numpy.inf], numpy.asarray(steps, float), [numpy.inf]])
    above = numpy.pad(curves > thresholds[:, None], ((0, 0), (0, 1)), constant_values=True)
    first = above.argmax(1)
    return times[first], times[first + 1]


def interval_of(after: Array, by: Array) -> tuple[float | None, float | None]:
    """From the 2.5 % quantile of the gaps' beginnings to the 97.5 % quantile of their ends; None beyond checkpoints."""
    low, high = (numpy.quantile(v, q, method="nearest") for v, q in zip((after, by), INTERVAL, strict=True))
    return (float(low) if numpy.isfinite(low) else None), (float(high) if numpy.isfinite(high) else None)


def check(steps: Sequence[int], curve: Array) -> None:
    """Raise BadInput unless there is a finite value at each of at least two increasing steps."""
    if len(steps) < 2 or len(steps) != len(curve):
        raise BadInput(f"a curve needs a value at each of at least two steps; got {len(steps)} and {len(curve)}")
    if (numpy.diff(steps) <= 0).any():
        raise BadInput(f"the steps of a curve must increase; got {', '.join(map(str, steps))}")
    if not numpy.isfinite(curve).all():
        raise BadInput(f"the curve is not finite at step {steps[int((~numpy.isfinite(curve)).argmax())]}")


# The causal onset ------------------------------------------------------------------------------------------------


def causal_onset(
    steps: Sequence[int], effects: Array, weights: Array, least: float = 0.0, above: NDArray[numpy.bool_] | None = None
) -> Causal:
    """Find the step at which silencing a path begins to raise the loss.

    Args:
        steps: of the checkpoints, increasing.
        effects: increase of each sequence's loss under silencing at each checkpoint, (sequence, step).
        weights: of the sequences in each bootstrap sample, (sample, sequence), from `resamples`.
        least: a final effect below this does not count, however significant: with enough sequences every effect is.
        above: at which checkpoints the path gets more attention than chance. At others the path does nothing yet, so
            the effect of silencing it is not its own and counts as 0.

    Raises:
        BadInput: as `onset` does.
    """
    at_work = numpy.ones(len(steps), bool) if above is None else above
    mean, resampled = effects.mean(0), weights @ effects / weights.sum(1, keepdims=True)
    check(steps, mean)
    low, high = numpy.quantile(resampled, INTERVAL, axis=0)
    stays = numpy.logical_and.accumulate((at_work & (low > 0))[::-1])[::-1]
    hurts_from = int(steps[int(stays.argmax())]) if stays.any() else None
    if hurts_from is None or mean[-1] < least:
        when = Onset("never", None, None, None, int(steps[-1]), None, 0)
    else:
        when = onset(steps, mean * at_work, HALF * mean[-1], resampled * at_work, HALF * resampled[:, -1])
    return Causal(when, hurts_from, float(mean[-1]), float(low[-1]), float(high[-1]))
