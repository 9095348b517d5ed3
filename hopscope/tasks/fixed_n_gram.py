"""Text of a fixed n-gram model: the next token's distribution depends only on the last n − 1 tokens.

The negative control of KV shifting attention (Xu et al., 2024, arXiv:2411.19574): earlier context does not help.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import BestAnswer
from hopscope.tasks.base_sources import SourceTask
from hopscope.theory.markov.chains import chosen, dirichlet


@dataclass(frozen=True)
class FixedNGram(SourceTask):
    """Each token is drawn from a table with a row for every n − 1 tokens. All tokens with that many before are asked.

    The table belongs to the task (`--table` seeds it) and is the same in all sequences, so it is learnt in the weights.
    """

    n_gram: int = setting(3, "n: a token's distribution depends on the n − 1 before it", low=2, high=4)
    n_tokens: int = setting(12, "number of different tokens", low=2, high=256)
    length: int = setting(32, "number of positions", low=4, high=4096)
    concentration: float = setting(
        0.1, "of the Dirichlet distribution of the table's rows: if small, one token is likely", low=1e-3
    )
    table: int = setting(0, "seed of the table", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_tokens**self.n_gram > 1 << 22:
            raise BadInput(f"tokens to the power of n-gram must be at most {1 << 22}; got {self.n_tokens**self.n_gram}")
        if self.length < self.n_gram:
            raise BadInput(f"length must be at least n-gram, {self.n_gram}; got {self.length}")

    @property
    def d_vocab(self) -> int:  # type: ignore[override]
        return self.n_tokens

    @property
    def query_positions(self) -> slice:
        return slice(self.n_gram - 2, None)

    @cached_property
    def rows(self) -> Float[Tensor, "context token"]:
        """The table, float64, by context: of n tokens, row n a + b follows a, b."""
        size = (self.n_tokens ** (self.n_gram - 1), self.n_tokens)
        return dirichlet(self.concentration, size, generator(self.table, "table"))

    def context(self, tokens: Int[Tensor, "batch place"]) -> Int[Tensor, "batch query"]:
        """The number of the table's row at every place with n − 1 tokens up to it."""
        n = tokens.shape[1] - self.n_gram + 2
        parts = [tokens[:, i : i + n] * self.n_tokens ** (self.n_gram - 2 - i) for i in range(self.n_gram - 1)]
        return torch.stack(parts).sum(0)

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        """Draw `tokens`, one more per sequence than there are positions; the last is only a target."""
        device, rows = generator.device, self.rows.to(generator.device)
        tokens = torch.randint(self.n_tokens, (n, self.n_gram - 1), generator=generator, device=device)
        uniform = torch.rand(n, self.length + 1, generator=generator, device=device, dtype=torch.float64)
        for place in range(self.n_gram - 1, self.length + 1):
            law = rows[self.context(tokens[:, 1 - self.n_gram :])[:, -1]]
            tokens = torch.cat([tokens, chosen(law, uniform[:, place])[:, None]], 1)
        return {"tokens": tokens}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["tokens"][:, self.n_gram - 1 :, None]

    def law(self, draw: Draw) -> Float[Tensor, "batch query vocab"]:
        return self.foretold(self.inputs(draw))

    def foretold(self, inputs: Int[Tensor, "batch position"]) -> Float[Tensor, "batch query vocab"]:
        """The table's row: context holds no further information."""
        return self.rows.to(inputs.device)[self.context(inputs)]

    def roles(self, draw: Draw) -> Roles:
        return relations(self.inputs(draw), self.query_positions)

    # In plain Python -----------------------------------------------------------------------------------------

    def problem(self, draw: Draw, row: int) -> Problem:
        """A fact for every n tokens of the sequence: the first n − 1 lead to the last."""
        tokens = [f"t{token}" for token in self.inputs({"tokens": draw["tokens"][row : row + 1]})[0].tolist()]
        n = self.n_gram - 1
        facts = [Fact((" ".join(tokens[i : i + n]),), tokens[i + n]) for i in range(len(tokens) - n)]
        return Problem(tuple(dict.fromkeys(facts)), (" ".join(tokens[-n:]),))

    def brute_force(self, inputs: list[int]) -> list[list[BestAnswer]]:
        """Rows of the table, looked up with the tokens as digits."""
        rows = self.rows.tolist()
        answers: list[list[BestAnswer]] = []
        for last in range(self.n_gram - 2, len(inputs)):
            number = 0
            for token in inputs[last - self.n_gram + 2 : last + 1]:
                number = number * self.n_tokens + token
            answers.append([dict(enumerate(rows[number]))])
        return answers
