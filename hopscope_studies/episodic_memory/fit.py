"""The CMR distance: how far a curve over lags is from the nearest curve of a model (Ji-An et al., 2024).

After src/fit_attn_score.py of the authors' code. The minimum is subtracted from a curve of attention and from every
model's curve, which is then scaled to the same maximum. The distance is their mean squared difference divided by the
variance of the attention; the smallest distance to any model counts. Any curve with one narrow peak is close to some
model, even one that peaks at lag 0, and so are a few per cent of random curves. So a head counts as *like recall* only
if its fitted β_rec is also above 0.5, and it attends to what followed its token more than to the token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
from jaxtyping import Float
from numpy.typing import ArrayLike

from hopscope_studies.episodic_memory.context_maintenance import LAGS, Memory

FITTED = 5  # lags on either side that are compared
NEAR = 0.5  # distance below which the paper calls a head CMR-like
RECALLS = 0.5  # β_rec above which an item calls up its own context (ours)
WINDOW = slice(LAGS - FITTED, LAGS + FITTED + 1)


@dataclass(frozen=True)
class Fit:
    """The recall model nearest to a curve.

    Attributes:
        distance: the CMR distance, 0 or more.
        memory: the nearest model.
        forward: whether the curve is higher at lag +1 than at 0.
    """

    distance: float
    memory: Memory
    forward: bool

    @property
    def near(self) -> bool:
        """Whether the curve is CMR-like by the paper's criterion."""
        return self.distance < NEAR

    @property
    def like_recall(self) -> bool:
        """Whether the curve is like recall by our stricter criterion."""
        return self.near and self.memory.recall > RECALLS and self.forward


class Fitter:
    """Finds the nearest of all models' curves.

    Args:
        curves: each model's lag curve (CRP) at lags −8 … 8.
    """

    def __init__(self, curves: Mapping[Memory, Sequence[float]]):
        self.memories = list(curves)
        window = numpy.array([curves[memory] for memory in self.memories])[:, WINDOW]
        low = window.min(1, keepdims=True)
        self.shapes = (window - low) / (window.max(1, keepdims=True) - low)  # from 0 to 1

    def distances(self, curve: Float[numpy.ndarray, "lag"]) -> Float[numpy.ndarray, "memory"]:
        """The distance of a curve at lags −5 … 5 from every model; ∞ for a flat curve, whose variance is 0."""
        shifted = curve - curve.min()
        if not shifted.max():
            return numpy.full(len(self.shapes), numpy.inf)
        return numpy.square(self.shapes * shifted.max() - shifted).mean(1) / shifted.var()

    def fit(self, attention: ArrayLike) -> Fit:
        """The nearest model to a curve at lags −8 … 8, or −5 … 5."""
        curve = numpy.asarray(attention, dtype=float)
        curve = curve[WINDOW] if len(curve) > 2 * FITTED + 1 else curve
        distances = self.distances(curve)
        best = int(distances.argmin())
        return Fit(float(distances[best]), self.memories[best], bool(curve[FITTED + 1] > curve[FITTED]))

    def chance(self, n: int, seed: int = 0) -> dict[str, float]:
        """Shares (0–1) of n random curves that are near a model, and like recall; values are uniform or exponential."""
        random = numpy.random.default_rng(seed)
        shape = (n, 2 * FITTED + 1)
        draws = {"even": random.random(shape), "exponential": random.standard_exponential(shape)}
        found = {}
        for name, drawn in draws.items():
            fits = [self.fit(curve) for curve in drawn]
            found[f"{name} near"] = sum(fit.near for fit in fits) / n
            found[f"{name} like recall"] = sum(fit.like_recall for fit in fits) / n
        return found
