"""A row of the caller's data on which a circuit is drawn; relations become paths between the row's positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.circuits.circuit import Circuit
from hopscope.live.given import Given
from hopscope.problem.paths import Path
from hopscope.problem.relations import Relations
from hopscope.problem.roles import ABSENT, Roles

TRIED = 32  # rows among which one that shows every path is looked for


@dataclass(frozen=True)
class Example:
    """A row with the paths to draw.

    Attributes:
        roles: of the row.
        symbols: the token at each position; empty for features.
        drawn: each path as it is drawn: itself or, for a relation, the paths between positions that stand in it.
    """

    roles: Roles
    symbols: Sequence[str]
    drawn: Mapping[Path, Sequence[Path]]

    @classmethod
    def of(cls, circuit: Circuit, task: Given, causal: bool, names: Sequence[str] | None) -> Example:
        """The row, of `TRIED`, that shows the most paths."""
        batch = task.sample(TRIED)
        paths = sorted({*(found.path for found in circuit.paths), *circuit.interchangeable})
        answer = range(task.n_positions)[task.query_positions][-1]
        roles, drawn, row = batch.roles, {path: [path] for path in paths}, 0
        if isinstance(roles, Relations):
            traces = [traced(paths, roles, i, answer, causal) for i in range(len(batch))]
            row = max(range(len(traces)), key=lambda i: sum(map(bool, traces[i][1].values())))
            places, drawn = traces[row]
            shown = placed(places, task.n_positions)
        else:
            shown = with_query(Roles(roles.names, roles.chain[:1]), answer)
        return cls(shown, token_names(batch.inputs[row], names), drawn)

    def every(self, paths: Iterable[Path]) -> list[Path]:
        """Paths as they are drawn."""
        return [drawn for path in paths for drawn in self.drawn.get(path, ())]

    def values(self, values: Mapping[Path, float]) -> dict[Path, float]:
        """Values of paths as values of the paths that are drawn for them."""
        return {drawn: value for path, value in values.items() for drawn in self.drawn.get(path, ())}


def token_names(inputs: Tensor, names: Sequence[str] | None) -> list[str]:
    """The name, or else the number, of the token at each position; empty for features."""
    if inputs.ndim > 1:
        return []
    tokens = [int(token) for token in inputs.tolist()]
    return [names[token] if names and 0 <= token < len(names) else str(token) for token in tokens]


def traced(
    paths: Sequence[Path], roles: Relations, row: int, answer: int, causal: bool
) -> tuple[dict[int, str], dict[Path, list[Path]]]:
    """The positions that paths of relations connect in a row, traced from the answer back.

    A path from `each` is drawn at the positions that later paths read; if there are none, at its last position.

    Returns:
        The name of each position in use, and for each path the paths between these positions.
    """
    named = {answer: "query"}
    drawn: dict[Path, list[Path]] = {path: [] for path in paths}
    for path in reversed(paths):
        match = roles.pairs(path.query, path.key, path.chain)[row]
        match = match.tril() if causal else match
        possible = match.any(1).nonzero().flatten().tolist()
        read = [position for position in possible if position in named]
        for end in read or possible[-1:]:
            named.setdefault(end, unused("each", named))
            for key in match[end].nonzero().flatten().tolist():
                named.setdefault(key, unused(path.key, named))
                drawn[path].append(Path(path.layer, path.head, named[end], named[key]))
    return named, drawn


def unused(name: str, named: Mapping[int, str]) -> str:
    """The name with as many primes as make it different from those in use."""
    while name in named.values():
        name += "′"
    return name


def placed(named: Mapping[int, str], n: int) -> Roles:
    """Named positions as roles of one row."""
    chain = torch.full((1, len(named), n), ABSENT)
    for role, position in enumerate(named):
        chain[0, role, position] = 0
    return Roles(tuple(named.values()), chain)


def with_query(roles: Roles, answer: int) -> Roles:
    """Roles of one row in which `query` belongs to a chain, because the picture begins there."""
    chain = roles.chain
    if "query" in roles.names and bool((chain[:, roles.index("query")] >= 0).any()):
        return roles
    number = max(0, int(chain[0, :, answer].max()))
    query = torch.full_like(chain[:, :1], ABSENT)
    query[0, 0, answer] = number
    kept = [i for i, name in enumerate(roles.names) if name != "query"]
    return Roles(("query", *(roles.names[i] for i in kept)), torch.cat([query, chain[:, kept]], 1))
