"""Running sums modulo m; m = 2 is parity (as in Liu et al., 2023, arXiv:2210.10749)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import BestAnswer, TokenTask


@dataclass(frozen=True)
class RunningSum(TokenTask):
    """At every position: what do the digits until here add up to, modulo m?

    ```
    1 0 1 1   ->  1 1 0 1        (m = 2)
    ```
    """

    length: int = setting(12, "digits of a sequence", low=2, high=4096)
    modulus: int = setting(2, "m, and the number of different digits", low=2, high=1024)

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        return self.modulus

    @property
    def n_positions(self) -> int:
        return self.length

    @property
    def query_positions(self) -> slice:
        return slice(None)

    @property
    def hop_names(self) -> tuple[str, ...]:
        return ("sum",)

    @property
    def baselines(self) -> dict[str, float]:
        """Nats: all sums equally likely; solved."""
        return {"any sum": math.log(self.modulus), "solved": 0.0}

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        shape = (n, self.length)
        return {"digits": torch.randint(self.modulus, shape, generator=generator, device=generator.device)}

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        return draw["digits"]

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return (draw["digits"].cumsum(1) % self.modulus)[..., None]

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """Adds up again for every position."""
        return [[sum(inputs[: place + 1]) % self.modulus] for place in range(len(inputs))]

    def roles(self, draw: Draw) -> Roles:
        """Every position is a query; the one before it holds the sum so far, for the last of them."""
        chain = torch.full((len(draw["digits"]), 2, self.n_positions), ABSENT, device=draw["digits"].device)
        chain[:, 0] = 0
        chain[:, 1, -2] = 0
        return Roles(("query", "key[1]"), chain)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact from each position to the next, whose digit is added."""
        names = [f"{digit}@{place}" for place, digit in enumerate(draw["digits"][row].tolist())]
        facts = (Fact((a,), b) for a, b in pairwise(names))
        return Problem(tuple(facts), (names[0],))

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        digits = draw["digits"][row]
        return {f"{int(digit)}@{place}": digit for place, digit in enumerate(digits)}
