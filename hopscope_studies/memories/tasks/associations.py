"""Associations: every input has an answer that must be memorised (Nichani, Lee & Bietti, 2024, section 4)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import Roles
from hopscope.tasks.base import TokenTask
from hopscope.theory.memories import even_classes


@dataclass(frozen=True)
class Associations(TokenTask):
    """One token z is shown, and its class f*(z) = ⌊z M / N⌋ is asked.

    ```
    x5  ->  y2          N = 16 inputs, M = 8 classes
    ```

    Only the weights can hold the answer. A batch holds every input equally often, give or take one, so a batch of N
    sequences is the whole data set.
    """

    n_inputs: int = setting(16, "N, number of different inputs", low=2, high=1 << 20)
    n_classes: int = setting(0, "M, number of answers; 0: each input has its own", low=0, high=1 << 20)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_classes > self.n_inputs or self.n_classes == 1:
            raise BadInput(f"classes must be 0, or 2 to the number of inputs, {self.n_inputs}; got {self.n_classes}")

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        return self.n_inputs

    @property
    def d_output(self) -> int:
        """M answers."""
        return self.n_classes or self.n_inputs

    @property
    def n_positions(self) -> int:
        return 1

    hop_names = ("answer",)

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: the frequencies of the answers, and a solved task."""
        counts = Counter(even_classes(self.n_inputs, self.d_output).tolist()).values()
        shares = [count / self.n_inputs for count in counts]
        return {"any answer": -sum(share * math.log(share) for share in shares), "solved": 0.0}

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        rounds = -(-n // self.n_inputs)
        shuffled = torch.rand(rounds, self.n_inputs, generator=generator, device=generator.device).argsort(-1)
        return {"input": shuffled.flatten()[:n, None]}

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        return draw["input"]

    def read(self, tokens: list[int]) -> Draw:
        return {"input": torch.tensor([tokens])}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return even_classes(self.n_inputs, self.d_output).to(draw["input"].device)[draw["input"]][..., None]

    def logits(self, outputs: Float[Tensor, "batch query output"]) -> Float[Tensor, "batch query hop output"]:
        return outputs.float()[..., None, :]

    def hop_losses(self, outputs: Tensor, targets: Int[Tensor, "batch query hop"]) -> Float[Tensor, "hop"]:
        return -self.logits(outputs).log_softmax(-1).gather(-1, targets[..., None]).mean((0, 1, 3))

    def roles(self, draw: Draw) -> Roles:
        """The query is the only role."""
        return Roles(("query",), torch.zeros_like(draw["input"])[:, None])

    def problem(self, draw: Draw, row: int) -> Problem:
        """All facts, and one question."""
        facts = (Fact((f"x{z}",), f"y{z * self.d_output // self.n_inputs}") for z in range(self.n_inputs))
        return Problem(tuple(facts), (f"x{int(draw['input'][row])}",))

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        named = {f"x{z}": torch.tensor(z) for z in range(self.n_inputs)}
        return named | {f"y{k}": torch.tensor(k) for k in range(self.d_output)}
