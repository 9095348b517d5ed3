"""When a training has converged: one rule, so that of rivals that are compared none is stopped sooner."""

from __future__ import annotations

from collections.abc import Mapping

#: The share of all steps over which a loss must still fall.
SHARE = 5


def is_flat(losses: Mapping[int, float], steps: int, least: float) -> bool:
    """Whether the best loss of the last fifth of a training's steps is not lower by `least` than the best before it.

    The fifth is one of all steps that were asked for, so that no training is over before it. One that comes to its end
    unflat has not converged, and is censored there.

    Args:
        losses: validation losses by step, up to now.
        steps: that were asked for.
        least: nats, or whatever the loss is in.
    """
    since = max(losses) - steps // SHARE
    before = [loss for step, loss in losses.items() if step <= since]
    return bool(before) and min(before) - min(losses.values()) < least
