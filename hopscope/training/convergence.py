"""When a training has converged: one rule, so that in a comparison no rival is stopped sooner than another."""

from __future__ import annotations

from collections.abc import Mapping

#: The share of all steps over which a loss must still fall.
SHARE = 5


def is_flat(losses: Mapping[int, float], steps: int, least: float) -> bool:
    """Whether the best loss of the last steps is not lower by `least` than the best loss before them.

    The last steps are a fifth of the steps that the training may take, at least one. A training that ends without being
    flat has not converged, and counts as censored at its end.

    Args:
        losses: the validation losses so far, by step.
        steps: the number of steps that the training may take.
        least: the least improvement that counts, in the unit of the loss.
    """
    since = max(losses) - max(1, steps // SHARE)
    before = [loss for step, loss in losses.items() if step <= since]
    return bool(before) and min(before) - min(losses.values()) < least
