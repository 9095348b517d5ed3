"""What the study's tasks share: examples (x, y) of a function, then an x whose y is asked."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base_regression import RegressionTask


class PairTask(RegressionTask):
    """Tokens (x, y) of `n_points` examples, then (x, 0). The loss is half the squared error, as in the authors' code.

    Attributes:
        d_x: components of x.
        n_points: examples in the context.
    """

    d_x: int
    n_points: int

    scale: ClassVar[float] = 0.5
    d_output = 1
    query_positions = slice(-1, None)

    @property
    def d_input(self) -> int:  # type: ignore[override]
        return self.d_x + 1

    @property
    def n_positions(self) -> int:
        return self.n_points + 1

    @abstractmethod
    def labels(self, draw: Draw) -> Float[Tensor, "batch position"]:
        """The function's value at the x of every position."""

    def inputs(self, draw: Draw) -> Float[Tensor, "batch position d_input"]:
        shown = self.labels(draw)
        shown[:, -1] = 0.0
        return torch.cat([draw["x"], shown[..., None]], -1)

    def targets(self, draw: Draw) -> Float[Tensor, "batch query output"]:
        return self.labels(draw)[:, -1:, None]

    def roles(self, draw: Draw) -> Roles:
        """What is looked up, x, and what it gives, y, at one position."""
        chain = torch.full((len(draw["x"]), 3, self.n_positions), ABSENT, device=draw["x"].device)
        chain[:, 0, -1] = chain[:, 1:, :-1] = 0
        return Roles(("query", "key[1]", "value[1]"), chain)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact per example, and the query; what kind of function it is is not among the facts."""
        facts = (Fact((f"x{i}",), f"y{i}") for i in range(1, self.n_points + 1))
        return Problem(tuple(facts), ("x",))

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        xs, ys = draw["x"][row], self.labels(draw)[row]
        told = {f"x{i + 1}": xs[i] for i in range(self.n_points)} | {"x": xs[-1]}
        return told | {f"y{i + 1}": ys[i : i + 1] for i in range(self.n_points)}
