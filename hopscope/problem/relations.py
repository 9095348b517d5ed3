"""Relations: what stands in for roles when a task names none, so that circuits can still be searched.

Roles name positions, but "attends to the previous one" names a position only relative to another. So a path here starts
at a place, `query` or `each` (every position that is no query), and ends at a relation to it: an offset, or a match of
tokens. `each->−1` is the previous-token head, `query->after-same-token` the induction head of Olsson et al. (2022).

No relation spans two steps, such as one to the fact that begins with the symbol just retrieved. Nor are positions of
one place told apart. A task that knows what its positions are for should define roles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.problem.roles import ABSENT, Relation, Roles

Match = Bool[Tensor, "batch query key"]

#: The relations in words.
WORDS = {
    "itself": "itself",
    "first": "the first position",
    "−1": "the position before it",
    "−2": "the position two before it",
    "same-token": "other positions that hold the same token",
    "after-same-token": "positions that follow the same token",
    "count": "the number of hops",
    "answer": "the position of its answer",
    "nowhere": "the number of hops, if it has no answer",
}
#: The places in words.
PLACES = {"query": "the query", "each": "each position"}


@dataclass(frozen=True)
class Relations(Roles):
    """Roles `query` and `each`, from which paths lead to relations.

    Attributes:
        matches: for each relation, True where the key position stands in it to the query position.
    """

    matches: Mapping[str, Match]

    @property
    def attended(self) -> tuple[str, ...]:
        return tuple(self.matches)

    def index(self, name: str) -> int:
        """The number of a place; relations are numbered after the places. Raises BadInput."""
        known = (*self.names, *self.matches)
        if name not in known:
            raise BadInput(f"there is no role {name!r} here; there are {', '.join(known)}")
        return known.index(name)

    def held(self) -> Bool[Tensor, "batch role position"]:
        """Whether a position is such a place, or stands in such a relation to any position."""
        related = [match.any(1) for match in self.matches.values()]
        return torch.cat([self.chain != ABSENT, torch.stack(related, 1)], 1)

    def pairs(self, query: str, key: str, relation: Relation) -> Match:
        """True where the first position is the place `query` and the second stands in relation `key` to it."""
        asking = self.held()[:, self.index(query), :, None]
        self.index(key)  # refuses a name that is neither a place nor a relation
        if query not in self.names or relation == "other" or key not in self.matches:
            return torch.zeros_like(asking & asking.mT)
        return asking & self.matches[key]

    def label(self, row: int, position: int) -> str:
        """`query`, or an empty string."""
        return "query" if int(self.chain[row, 0, position]) != ABSENT else ""

    def strengths(
        self, pattern: Float[Tensor, "batch head query key"]
    ) -> Float[Tensor, "relation head query_role key_role"]:
        """Mean attention (0–1) from each place to each relation; NaN between chains, because there are none."""
        means = torch.full((2, pattern.shape[1], len(self.names), len(self.matches)), torch.nan, device=pattern.device)
        for row, place in enumerate(self.names):
            for column, relation in enumerate(self.matches):
                match = self.pairs(place, relation, "same")
                on_match = (pattern * match[:, None]).sum(-1).transpose(0, 1)  # head batch query
                means[0, :, row, column] = on_match[:, match.any(-1)].mean(1)
        return means


def relations(inputs: Tensor, queries: slice) -> Relations:
    """The relations of some sequences.

    Args:
        inputs: tokens (int, batch position), or features (float, batch position feature), which allow offsets only.
        queries: the positions at which answers are read.
    """
    n = inputs.shape[1]
    asking = torch.zeros(n, dtype=torch.bool, device=inputs.device)
    asking[queries] = True
    places = {"query": asking, "each": ~asking}
    held = {name: at for name, at in places.items() if bool(at.any())}
    chain = torch.stack([torch.where(at, 0, ABSENT) for at in held.values()])
    matches = {name: rule(n, inputs).expand(len(inputs), n, n) for name, rule in OFFSETS.items()}
    if inputs.ndim == 2:
        matches |= {name: rule(inputs) for name, rule in TOKENS.items()}
    return Relations(tuple(held), chain.expand(len(inputs), -1, -1), matches)


def pointing(places: Int[Tensor, "batch query"], n: int, offset: int = 1) -> Match:
    """The relation of each position to one other position, or to none where `places` is negative.

    Args:
        places: the related position, for each position from `offset` on.
        n: the number of positions.
        offset: how many positions at the start stand in no such relation.
    """
    match = torch.zeros(len(places), n, n, dtype=torch.bool, device=places.device)
    match[:, offset:].scatter_(2, places.clamp(min=0)[..., None], (places >= 0)[..., None])
    return match


def back(by: int) -> Callable[[int, Tensor], Bool[Tensor, "query key"]]:
    """The relation to the position `by` places earlier."""
    return lambda n, inputs: torch.ones(n - by, dtype=torch.bool, device=inputs.device).diag(-by)


def first(n: int, inputs: Tensor) -> Bool[Tensor, "query key"]:
    """The relation to position 0."""
    return (torch.arange(n, device=inputs.device) == 0).expand(n, n)


def same_token(tokens: Int[Tensor, "batch position"]) -> Match:
    """The relation to other positions with the same token."""
    own = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
    return (tokens[:, :, None] == tokens[:, None]) & ~own


def after_same_token(tokens: Int[Tensor, "batch position"]) -> Match:
    """The relation to positions that follow one with the same token, except the position itself and the next one."""
    match = same_token(tokens).roll(1, 2)
    match[:, :, 0] = False
    own = torch.eye(tokens.shape[1], dtype=torch.bool, device=tokens.device)
    return match & ~own


OFFSETS = {"itself": back(0), "first": first, "−1": back(1), "−2": back(2)}
TOKENS = {"same-token": same_token, "after-same-token": after_same_token}
