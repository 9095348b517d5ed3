"""Negative controls: what must not look like a circuit.

A search that accepts anything is worth nothing. Beside a circuit stand random sets of as many paths (none should keep
the loss under the threshold), and the same search with role labels that are wrong (it should accept nothing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hopscope.circuits.evaluator import Evaluator, Hard
from hopscope.core.seeds import generator
from hopscope.problem.paths import Path
from hopscope.problem.relations import Relations
from hopscope.problem.roles import Roles
from hopscope.tasks.base import Batch


@dataclass(frozen=True)
class RandomSets:
    """Random sets of paths, all patterns by hand.

    Attributes:
        n: how many sets were drawn.
        size: paths in each.
        under: the share of them with a loss under the threshold, 0–1.
        least: the least loss among them.
    """

    n: int
    size: int
    under: float
    least: float

    def as_dict(self) -> dict[str, Any]:
        return {"n": self.n, "size": self.size, "under": self.under, "least": round(self.least, 6)}


def random_sets(evaluator: Evaluator, size: int, threshold: float, n: int = 1000, seed: int = 0) -> RandomSets:
    """Draw sets of so many different paths, at most one per row, and set all patterns by hand.

    Args:
        evaluator: the model on sequences.
        size: paths per set; the circuit's.
        threshold: below which a circuit would be accepted.
        n: number of sets.
        seed: of the draws.
    """
    random = generator(seed, "random sets", 0)
    rows = [paths for row in evaluator.ground.rows if (paths := evaluator.ground.paths_in(row))]
    sets = []
    for _ in range(n):
        chosen = torch.randperm(len(rows), generator=random)[:size].tolist()
        picks: list[Path] = [rows[i][int(torch.randint(len(rows[i]), (1,), generator=random))] for i in chosen]
        sets.append(Hard(dict.fromkeys(picks, 1.0)))
    losses = [loss.mean for loss in evaluator.losses(sets)]
    return RandomSets(n, size, sum(loss < threshold for loss in losses) / n, min(losses))


def with_wrong_chains(batch: Batch, seed: int = 0) -> Batch:
    """The same sequences with roles that lie.

    Where there are three chains or more, those of queries are renamed at random, none keeping its own. With two, the
    other one would be the right one; so there, with one, and where positions are named by relations (`hop_k`,
    `k_fold`), every sequence gets the roles of another.

    Raises:
        ValueError: there are fewer than three chains, and all sequences have the same roles.
    """
    roles, random = batch.searched, generator(seed, "wrong chains", 0)
    n_chains = 0 if isinstance(roles, Relations) else int(roles.chain.max()) + 1
    wrong = Batch(batch.task, batch.draw)
    if n_chains < 3:
        lie = of_another(roles, int(torch.randint(1, max(2, len(batch)), (1,), generator=random)))
        if same(roles, lie):
            raise ValueError(
                "all sequences have the same roles, and there are no three chains: there is none to take for another"
            )
    else:
        shift = int(torch.randint(1, n_chains, (1,), generator=random))
        chain = roles.chain.clone()
        queries = chain[:, 0]
        chain[:, 0] = torch.where(queries >= 0, (queries + shift) % n_chains, queries)
        lie = Roles(roles.names, chain)
    wrong.__dict__["searched"] = lie
    if not isinstance(lie, Relations):
        wrong.__dict__["roles"] = lie
    return wrong


def of_another(roles: Roles, by: int = 1) -> Roles:
    """The roles of the sequence so many before, or its relations; what is alike in all sequences stays."""
    if isinstance(roles, Relations):
        matches = {name: match.roll(by, 0) for name, match in roles.matches.items()}
        return Relations(roles.names, roles.chain.roll(by, 0), matches)
    return Roles(roles.names, roles.chain.roll(by, 0))


def same(one: Roles, other: Roles) -> bool:
    """Whether two say the same of every sequence."""
    if isinstance(one, Relations) and isinstance(other, Relations):
        return all(torch.equal(match, other.matches[name]) for name, match in one.matches.items())
    return torch.equal(one.chain, other.chain)
