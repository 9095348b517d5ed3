"""A linear function of a sliding window that generates its own sequence (Campbell et al., 2023, arXiv:2312.12655)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy
import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.seeds import generator as seeded
from hopscope.core.settings import setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import BestAnswer
from hopscope.tasks.base_regression import RegressionTask
from hopscope_studies.sequential_functions.theory.bayes import Mixture, means_of_genuine


@dataclass(frozen=True)
class SelfGenerated(RegressionTask):
    """A window of two: y_t = A1 x_t + A2 x_(t−1), and the next x has the label's direction, x_(t+1) = √n y_t / |y_t|.

    ```
    (x1, 0)  (x2, 0)  (x3, y2)  (x4, y3)  …       at x_t, from t = 2 on, asked: A1 x_t + A2 x_(t−1)
    ```

    A1 and A2 are drawn for every sequence, with entries N(0, 1/2n). Labels have noise, and a share of them is replaced
    by random vectors of equal size. The sequence continues from the label shown. Targets have no noise.
    """

    d_x: int = setting(3, "n, components of x and y", low=1, high=256)
    length: int = setting(14, "T, number of x", low=3, high=1024)
    noise: float = setting(0.25, "standard deviation of the labels' noise; that of labels is about 1", low=0)
    replaced: float = setting(0.0, "share (0-1) of labels that are replaced by random vectors", low=0, high=1)

    @property
    def d_input(self) -> int:  # type: ignore[override]
        """The size of x and the label before it."""
        return 2 * self.d_x

    @property
    def d_output(self) -> int:
        return self.d_x

    @property
    def n_positions(self) -> int:
        return self.length

    query_positions = slice(1, None)

    @cached_property
    def hop_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """One per place; the first is asked without any label."""
        return tuple(f"y{t}" for t in range(2, self.length + 1))

    @property
    def baselines(self) -> dict[str, float]:
        """Mean squared errors over all places: 0, the posterior mean (over 2,000 sequences), and a solved task."""
        zero, best = estimated(self)
        return {"predict zero": zero, "posterior mean": best, "solved": 0.0}

    @property
    def bayes_loss(self) -> float:
        return self.baselines["posterior mean"]

    @property
    def random_size(self) -> float:
        """The standard deviation of random labels: that of a genuine label of an x that A has not generated."""
        return float((1 + self.noise**2) ** 0.5)

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        how: dict[str, Any] = {"generator": generator, "device": generator.device}
        weights = torch.randn(n, self.d_x, 2 * self.d_x, **how) / (2 * self.d_x) ** 0.5
        errors = self.noise * torch.randn(n, self.length, self.d_x, **how)
        random = self.random_size * torch.randn(n, self.length, self.d_x, **how)
        is_random = torch.rand(n, self.length, 1, **how) < self.replaced
        xs = [self.direction(x) for x in torch.randn(2, n, self.d_x, **how)]
        labels = [torch.zeros_like(xs[0])]
        for t in range(1, self.length):
            made = torch.einsum("bof,bf->bo", weights, torch.cat([xs[t], xs[t - 1]], -1)) + errors[:, t]
            labels.append(torch.where(is_random[:, t], random[:, t], made))
            xs.append(self.direction(labels[-1]))
        return {"weights": weights, "x": torch.stack(xs[:-1], 1), "label": torch.stack(labels, 1)}

    def direction(self, label: Float[Tensor, "batch n"]) -> Float[Tensor, "batch n"]:
        """A label, scaled to the length √n."""
        return label * self.d_x**0.5 / label.norm(dim=-1, keepdim=True)

    def inputs(self, draw: Draw) -> Float[Tensor, "batch position d_input"]:
        before = torch.cat([torch.zeros_like(draw["label"][:, :1]), draw["label"][:, :-1]], 1)
        return torch.cat([draw["x"], before], -1)

    def targets(self, draw: Draw) -> Float[Tensor, "batch query output"]:
        windows = torch.cat([draw["x"][:, 1:], draw["x"][:, :-1]], -1)
        return torch.einsum("bof,btf->bto", draw["weights"], windows)

    def hop_losses(
        self, outputs: Float[Tensor, "batch query output"], targets: Float[Tensor, "batch query output"]
    ) -> Float[Tensor, "hop"]:
        return (outputs.float() - targets).square().mean((0, 2))

    def roles(self, draw: Draw) -> Roles:
        """Roles as seen from the last x: a window is looked up where it ends, and its label is at the next position."""
        chain = torch.full((len(draw["x"]), 3, self.length), ABSENT, device=draw["x"].device)
        chain[:, 0, -1] = 0
        chain[:, 1, 1:-1] = 0
        chain[:, 2, 2:] = 0
        return Roles(("query", "key[1]", "value[1]"), chain)

    def problem(self, draw: Draw, row: int) -> Problem:
        """The labels shown, and the one asked; linearity is not stated as a fact."""
        facts = (Fact((f"x{t - 1}", f"x{t}"), f"y{t}") for t in range(2, self.length))
        return Problem(tuple(facts), (f"x{self.length}",))

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        xs = {f"x{t + 1}": draw["x"][row, t] for t in range(self.length)}
        return xs | {f"y{t + 1}": draw["label"][row, t] for t in range(1, self.length - 1)}

    def brute_force(self, inputs: list[Any]) -> list[list[BestAnswer]]:
        """The posterior mean in float64, following every set of labels that may be genuine."""
        tokens = numpy.array(inputs, dtype=float)
        known = Mixture(
            self.d_x,
            2 * self.d_x,
            weight_variance=1 / (2 * self.d_x),
            noise=self.noise,
            replaced=self.replaced,
            random_size=self.random_size,
        )
        answers: list[list[BestAnswer]] = []
        for t in range(1, len(tokens)):
            if t > 1:
                known.observe(window(tokens, t - 1), tokens[t, self.d_x :])
            answers.append([float(number) for number in known.predict(window(tokens, t))])
        return answers


def window(tokens: Float[numpy.ndarray, "position d_input"], t: int) -> Float[numpy.ndarray, "feature"]:
    """x_t and the one before it."""
    n = tokens.shape[1] // 2
    return numpy.concatenate([tokens[t, :n], tokens[t - 1, :n]])


@cache
def estimated(task: SelfGenerated, size: int = 2000) -> tuple[float, float]:
    """The mean squared errors of 0 and of the posterior mean given genuine labels, over sequences of one seed."""
    batch = task.but(replaced=0.0).sample(size, seeded(0, "baselines"))
    tokens, n = batch.inputs.double().numpy(), task.d_x
    windows = numpy.concatenate([tokens[:, 1:, :n], tokens[:, :-1, :n]], -1)
    shown = numpy.concatenate([tokens[:, 2:, n:], numpy.zeros_like(tokens[:, :1, n:])], 1)  # the last is never shown
    best = means_of_genuine(windows, shown, weight_variance=1 / (2 * n), noise=task.noise)
    targets = batch.targets.double().numpy()
    return float((targets**2).mean()), float(((best - targets) ** 2).mean())
