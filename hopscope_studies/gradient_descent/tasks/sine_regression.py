"""Regression of sine waves in context (von Oswald et al., 2023, arXiv:2212.07677, section 4 and their code)."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sin
from typing import Any

import numpy
import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import setting
from hopscope.problem.factsheet import Draw
from hopscope.tasks.base import BestAnswer
from hopscope.theory.least_squares import least_squares
from hopscope_studies.gradient_descent.pairs import PairTask

REACH = 5.0  # x is between minus this and this
LOW, HIGH = 0.1, 0.5  # amplitudes


@dataclass(frozen=True)
class SineRegression(PairTask):
    """Examples (x, y) of y = a sin(x + φ), then an x alone; its y is asked.

    ```
    (x1, y1)  (x2, y2)  …  (xN, yN)  (x, 0)   ->  a sin(x + φ)
    ```

    x is uniform in ±5. For every sequence a is uniform in 0.1 to 0.5, and φ in 0 to π. A wave is a linear function of
    sin x and cos x, so two examples determine it. The loss is half the squared error.
    """

    n_points: int = setting(10, "N, examples in the context", low=2, high=4096)

    d_x = 1

    @property
    def baselines(self) -> dict[str, float]:
        """Half the squared error: of 0; of the mean wave, E[a] 2/π cos x, without the examples; solved."""
        power = (HIGH**3 - LOW**3) / (3 * (HIGH - LOW)) / 2  # E[y²]
        mean, cosine = (LOW + HIGH) / 2 * 2 / pi, 0.5 + sin(2 * REACH) / (4 * REACH)  # of cos x; E[cos² x]
        return {"predict zero": power / 2, "predict the mean wave": (power - mean**2 * cosine) / 2, "solved": 0.0}

    bayes_loss = 0.0

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        x, a, phase = (
            torch.rand(n, *size, generator=generator, device=generator.device)
            for size in ((self.n_points + 1, 1), (1,), (1,))
        )
        return {"x": REACH * (2 * x - 1), "a": LOW + (HIGH - LOW) * a, "phase": pi * phase}

    def labels(self, draw: Draw) -> Float[Tensor, "batch position"]:
        """a sin(x + φ) at every position."""
        return draw["a"] * (draw["x"][..., 0] + draw["phase"]).sin()

    def brute_force(self, inputs: list[Any]) -> list[list[BestAnswer]]:
        """Least squares on sin x and cos x in float64, which is exact."""
        x, y = numpy.array(inputs, dtype=float).T
        waves = numpy.stack([numpy.sin(x), numpy.cos(x)], -1)
        return [[float(least_squares(waves[:-1], y[:-1, None], waves[-1])[0])]]
