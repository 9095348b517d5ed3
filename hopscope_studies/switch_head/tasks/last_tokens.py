"""The tokens just before: a task on several places at once, which needs several attention maps or a substitute.

Ours, for SwitchHead (Csordás et al., 2023, arXiv:2312.07987). A head with one map reads one place well, so a layer
needs as many maps as places, unless experts let one map serve several.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Fact, Problem
from hopscope.problem.relations import Match, Relations, pointing
from hopscope.problem.roles import ABSENT, Roles
from hopscope.tasks.base import Batch, TokenTask


@dataclass(frozen=True)
class LastTokens(TokenTask):
    """Random tokens; every position after the first m is asked for each of the m tokens before it.

    ```
    c a d b f   ->   of f, with m = 3: b, then d, then a
    ```
    """

    n_places: int = setting(8, "m, how many tokens are asked, each at its distance", low=1, high=256)
    length: int = setting(24, "number of positions", low=2, high=4096)
    d_vocab: int = setting(8, "number of different tokens", low=2, high=65536)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length <= self.n_places:
            raise BadInput(f"length must be above places, {self.n_places}; got {self.length}")

    @property
    def query_positions(self) -> slice:
        return slice(self.n_places, None)

    @property
    def hop_names(self) -> tuple[str, ...]:
        return tuple(f"−{distance}" for distance in range(1, self.n_places + 1))

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: all tokens equally likely; solved."""
        return {"any token": self.uniform(), "solved": 0.0}

    def draw(self, n: int, generator: torch.Generator) -> Draw:
        shape = (n, self.length)
        return {"tokens": torch.randint(self.d_vocab, shape, generator=generator, device=generator.device)}

    def targets(self, draw: Draw) -> Int[Tensor, "batch query hop"]:
        return draw["tokens"][:, :-1].unfold(1, self.n_places, 1).flip(-1)

    def roles(self, draw: Draw) -> Roles:
        """Roles as seen from the last position, the query: `value[d]` is d positions before it."""
        tokens, m = draw["tokens"], self.n_places
        chain = torch.full((len(tokens), m + 1, self.length), ABSENT, device=tokens.device)
        for distance in range(m + 1):
            chain[:, distance, -1 - distance] = 0
        return Roles(("query", *(f"value[{distance}]" for distance in range(1, m + 1))), chain)

    def searched_roles(self, batch: Batch) -> Relations:
        """Relations searched for: each asking position to itself, and to the position 1 to m before it."""
        tokens, n = batch.inputs, self.length
        places = torch.arange(n, device=tokens.device).expand_as(tokens)
        asking = torch.where(places >= self.n_places, 0, ABSENT)[:, None]
        matches: dict[str, Match] = {"itself": pointing(places, n, 0)}
        for distance, name in enumerate(self.hop_names, 1):
            matches[name] = pointing(torch.where(places >= distance, places - distance, ABSENT), n, 0)
        return Relations(("query",), asking, matches)

    def problem(self, draw: Draw, row: int) -> Problem:
        """A symbol `token@place` for every place, and a fact from each to the one before it."""
        names = self.names(draw, row)
        facts = (Fact((here,), before) for before, here in pairwise(names))
        return Problem(tuple(facts), tuple(names[self.query_positions]))

    @property
    def asked_hops(self) -> slice:
        return slice(0, self.n_places)

    def names(self, draw: Draw, row: int) -> list[str]:
        """`t7@3` for token 7 at place 3."""
        return [f"t{token}@{place}" for place, token in enumerate(draw["tokens"][row].tolist())]

    def values(self, draw: Draw, row: int) -> dict[str, Tensor]:
        return dict(zip(self.names(draw, row), draw["tokens"][row], strict=True))

    def read(self, tokens: list[int]) -> Draw:
        return {"tokens": torch.tensor([tokens])}
