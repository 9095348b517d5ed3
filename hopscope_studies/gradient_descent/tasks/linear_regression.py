"""Linear regression in context (von Oswald et al., 2023, arXiv:2212.07677, section 3 and their code)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.roles import ABSENT, NO_CHAIN, Roles
from hopscope.problem.symbols import position_code
from hopscope.tasks.base import BestAnswer
from hopscope.theory.least_squares import least_squares
from hopscope_studies.gradient_descent.pairs import PairTask
from hopscope_studies.gradient_descent.theory.one_step import one_step_loss, zero_loss

D_CODE, BASE = 10, 10_000.0  # numbers and base of the position codes of separate tokens, as in the authors' code


@dataclass(frozen=True)
class LinearRegression(PairTask):
    """Examples (x, y) of y = w·x, then an x alone; its y is asked.

    ```
    (x1, y1)  (x2, y2)  …  (xN, yN)  (x, 0)   ->  w·x
    ```

    With `separate` x and y of an example are two tokens (section 5): x1 y1 x2 y2 … x. A token is then a position code,
    x or zeros, and y or zero.

    w is drawn from N(0, `weight_scale`² I) for every sequence, components of x evenly from ±`input_range` / 2. The loss
    is half the squared error, as in the authors' code.
    """

    d_x: int = setting(10, "components of x", low=1, high=1024)
    n_points: int = setting(10, "N, examples in the context", low=1, high=4096)
    input_range: float = setting(1.0, "width of the interval that components of x are drawn from", low=1e-6)
    weight_scale: float = setting(1.0, "standard deviation of the weights", low=1e-6)
    separate: bool = setting(False, "whether x and y are two tokens, with position codes, or one", since="0.2.0")

    @property
    def d_input(self) -> int:  # type: ignore[override]
        """A position code if tokens are separate, x, y."""
        return (D_CODE if self.separate else 0) + self.d_x + 1

    @property
    def n_positions(self) -> int:
        return self.n_points * (2 if self.separate else 1) + 1

    @property
    def baselines(self) -> dict[str, float]:
        """Half the squared error: of 0; of one step of gradient descent at its best rate; solved."""
        unit = self.weight_scale**2
        found = {
            "predict zero": unit * zero_loss(self.d_x, self.input_range),
            "one step of gradient descent": unit * one_step_loss(self.d_x, self.n_points, self.input_range),
        }
        return {**found, "solved": 0.0}

    @property
    def bayes_loss(self) -> float:
        """Half the squared error of the posterior mean: the weights are known in as many directions as examples."""
        unknown = max(0, self.d_x - self.n_points) / self.d_x
        return self.baselines["predict zero"] * unknown

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        device = generator.device
        even = torch.rand(n, self.n_points + 1, self.d_x, generator=generator, device=device) - 0.5
        weights = torch.randn(n, self.d_x, generator=generator, device=device)
        return {"x": self.input_range * even, "w": self.weight_scale * weights}

    def labels(self, draw: Draw) -> Float[Tensor, "batch position"]:
        """w·x of every position."""
        return torch.einsum("bpx,bx->bp", draw["x"], draw["w"])

    def inputs(self, draw: Draw) -> Float[Tensor, "batch position d_input"]:
        pairs = super().inputs(draw)
        return self.separated(pairs) if self.separate else pairs

    def separated(self, pairs: Float[Tensor, "batch example d_pair"]) -> Float[Tensor, "batch position d_input"]:
        """Every x and every y as a token, behind the code of its position; the last y, which is asked, is left out."""
        is_y = torch.arange(self.d_x + 1, device=pairs.device) == self.d_x
        tokens = torch.stack([pairs.masked_fill(is_y, 0.0), pairs.masked_fill(~is_y, 0.0)], 2).flatten(1, 2)[:, :-1]
        codes = position_code(torch.arange(self.n_positions, device=pairs.device), D_CODE, BASE)
        return torch.cat([codes.expand(len(pairs), -1, -1), tokens], -1)

    def roles(self, draw: Draw) -> Roles:
        """What is looked up, x, and what it gives, y: at one position, or at two that are a chain of their own."""
        found = super().roles(draw)
        if self.separate:
            found.chain.fill_(ABSENT)[:, 0, -1] = NO_CHAIN
            found.chain[:, 1, :-1:2] = found.chain[:, 2, 1::2] = torch.arange(self.n_points, device=found.chain.device)
        return found

    def brute_force(self, inputs: list[Any]) -> list[list[BestAnswer]]:
        """Least squares in float64, of least norm where examples are too few: the posterior mean."""
        tokens = numpy.array(inputs, dtype=float)
        if self.separate:
            tokens = tokens[:, D_CODE:]
            tokens = numpy.concatenate([tokens[:-1:2] + tokens[1::2], tokens[-1:]])
        x, y = tokens[:-1, :-1], tokens[:-1, -1:]
        return [[float(least_squares(x, y, tokens[-1, :-1])[0])]]
