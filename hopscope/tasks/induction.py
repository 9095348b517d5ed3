"""Induction: … a b … a, what follows? The retrieval problem with one hop (Olsson et al., 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import TokenTask


@dataclass(frozen=True)
class Induction(TokenTask):
    """Different tokens, then one of them again; the answer is the token that followed it.

    ```
    c f a b e d | a   ->  b
    ```

    The place of the earlier occurrence is uniformly distributed, so no fixed offset helps.
    """

    length: int = setting(32, "number of different tokens before the query", low=2, high=4096)
    d_vocab: int = setting(64, "number of different tokens in all", low=2, high=65536)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_vocab < self.length:
            raise BadInput(f"d-vocab must be at least the length, {self.length}; got {self.d_vocab}")

    @property
    def n_positions(self) -> int:
        return self.length + 1

    query_positions = slice(-1, None)
    hop_names = ("x1",)
    asked_hops = slice(0, 1)

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all tokens equally likely; all tokens but the first; a solved task."""
        return {
            "any token": math.log(self.d_vocab),
            "any token of the sequence": math.log(self.length - 1),
            "solved": 0.0,
        }

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        device = generator.device
        tokens = torch.rand(n, self.d_vocab, generator=generator, device=device).argsort(-1)[:, : self.length]
        return {
            "tokens": tokens,
            "place": torch.randint(self.length - 1, (n, 1), generator=generator, device=device),
        }

    def inputs(self, draw: Draw) -> Int[Tensor, "batch position"]:
        return torch.cat([draw["tokens"], draw["tokens"].gather(1, draw["place"])], 1)

    def read(self, tokens: list[int]) -> Draw:
        *row, query = tokens
        if len(set(row)) < len(row):
            raise BadInput("the tokens before the query must all differ")
        if query not in row[:-1]:
            raise BadInput("the last token, the query, must be one of those before it that another one follows")
        return {"tokens": torch.tensor([row]), "place": torch.tensor([[row.index(query)]])}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["tokens"].gather(1, draw["place"] + 1)[:, None]

    def roles(self, draw: Draw) -> Roles:
        chain = torch.full((len(draw["place"]), 3, self.n_positions), ABSENT, device=draw["place"].device)
        chain[:, 0, -1] = 0
        chain[:, 1].scatter_(1, draw["place"], 0)
        chain[:, 2].scatter_(1, draw["place"] + 1, 0)
        return Roles(("query", "key[1]", "value[1]"), chain)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for every two neighbours; only the query's own earlier neighbour is asked."""
        tokens = [f"t{token}" for token in self.inputs({k: v[row : row + 1] for k, v in draw.items()})[0].tolist()]
        facts = (Fact((first,), second) for first, second in pairwise(tokens[:-1]))
        return Problem(tuple(facts), (tokens[-1],))
