"""Roles: what every position of a sequence is for, so that attention can be described without looking at it.

The names are those of docs/contracts.md: `query`; `key[k]`, the token of fact k that is looked up; `value[k]`, the
token that it gives. Two positions are related as `same` chain or `other`. A task knows the roles of its positions
exactly, so measures, pictures and circuits are written once, in terms of roles, for every task.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.problem.paths import RELATIONS as RELATIONS, Relation as Relation

#: Values of `Roles.chain`: the position lacks the role; or has it, but in no query's chain (a distractor).
ABSENT, NO_CHAIN = -1, -2


@dataclass(frozen=True)
class Roles:
    """Which positions hold which role, and in which chain.

    Attributes:
        names: the roles, from the query outward.
        chain: for each sequence, role and position, the number of the chain (from 0) in which the position holds the
            role, else `ABSENT` or `NO_CHAIN`. A position may hold several roles, and a role several positions.
    """

    names: tuple[str, ...]
    chain: Int[Tensor, "batch role position"]

    @property
    def attended(self) -> tuple[str, ...]:
        """The names that paths may lead to: the roles, or the relations of `hopscope.problem.relations`."""
        return self.names

    def index(self, name: str) -> int:
        """The number of a role. Raises BadInput for a name that the task lacks."""
        if name not in self.names:
            raise BadInput(f"there is no role {name!r} here; the task has {', '.join(self.names)}")
        return self.names.index(name)

    def held(self) -> Bool[Tensor, "batch role position"]:
        """Whether a position holds a role, in any chain or in none."""
        return self.chain != ABSENT

    def pairs(self, query: str, key: str, relation: Relation) -> Bool[Tensor, "batch position position"]:
        """True where the first position holds role `query`, the second `key`, and their chains have this `relation`.

        `other` means different chains, or that one of the two positions is in no chain.
        """
        q = self.chain[:, self.index(query), :, None]
        k = self.chain[:, self.index(key), None, :]
        same = (q == k) & (q >= 0)
        both = (q != ABSENT) & (k != ABSENT)
        return same if relation == "same" else both & ~same

    def label(self, row: int, position: int) -> str:
        """A position's roles, for people: `b value[2]`, `query` …; several are joined by a slash."""
        words = []
        for role, name in enumerate(self.names):
            chain = int(self.chain[row, role, position])
            if chain >= 0:
                words.append(f"{chain_letter(chain)} {name}")
            elif chain == NO_CHAIN:
                words.append(f"· {name}")
        return " / ".join(words)

    def labels(self, row: int) -> list[str]:
        """The labels of all positions of one sequence."""
        return [self.label(row, position) for position in range(self.chain.shape[-1])]

    def strengths(
        self, pattern: Float[Tensor, "batch head query key"]
    ) -> Float[Tensor, "relation head query_role key_role"]:
        """Mean attention (0–1) on every path: from positions of one role to those of another, by relation.

        For each position that holds the query role, and for which the key role exists in that relation, the attention
        to all holders of the key role is summed. The mean is over those positions and all sequences; it is NaN where
        there are none. Relations are in the order of `RELATIONS` (paper, section 9.1).
        """
        held = self.held().to(pattern.dtype)
        chains = torch.arange(int(self.chain.max().clamp(min=0)) + 1, device=pattern.device)
        in_chain = (self.chain[..., None] == chains).to(pattern.dtype)  # batch role position chain
        in_none = (self.chain == NO_CHAIN).to(pattern.dtype)
        on_chain = torch.einsum("bhqk,bskc->bhqsc", pattern, in_chain)
        same_sum = torch.einsum("brqc,bhqsc->hrs", in_chain, on_chain)
        # Summed rather than subtracted from the total, so that an impossible path is exactly 0.
        on_others = torch.einsum("bhqk,bskc->bhqsc", pattern, held[..., None] - in_chain)
        on_role = torch.einsum("bhqk,bsk->bhqs", pattern, held)
        other_sum = torch.einsum("brqc,bhqsc->hrs", in_chain, on_others)
        other_sum = other_sum + torch.einsum("brq,bhqs->hrs", in_none, on_role)
        exists = in_chain.amax(2)  # batch role chain: does the chain have a holder of the role?
        same_count = torch.einsum("brqc,bsc->rs", in_chain, exists)
        # A holder of role r has role s in another chain if some holder of s is not in its own chain.
        holders = held.sum(-1)
        own = torch.einsum("brqc,bskc->brqs", in_chain, in_chain)
        other_count = (held[..., None] * (holders[:, None, None, :] - own > 0)).sum((0, 2))
        return torch.stack([same_sum / same_count, other_sum / other_count])


def chain_letter(chain: int) -> str:
    """a … z, A … Z, then a', b', …: the name of a chain for people."""
    turn, letter = divmod(chain, 52)
    return (string.ascii_lowercase + string.ascii_uppercase)[letter] + "'" * turn
