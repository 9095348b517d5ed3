"""One of the given rows on which a circuit's paths can be drawn: those of relations become paths between positions."""

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

TRIED = 32  # rows, for one that shows every path


@dataclass(frozen=True)
class Example:
    """What is drawn.

    Attributes:
        roles: of the row.
        symbols: what stands at each position; nothing where that are features.
        drawn: each path as it is drawn: itself, or for a relation from and to the positions of the example.
    """

    roles: Roles
    symbols: Sequence[str]
    drawn: Mapping[Path, Sequence[Path]]

    @classmethod
    def of(cls, circuit: Circuit, task: Given, causal: bool, names: Sequence[str] | None) -> Example:
        """An example of all paths, if some row has one."""
        batch = task.sample(TRIED)
        paths = sorted({*(found.path for found in circuit.paths), *circuit.interchangeable})
        asked = range(task.n_positions)[task.query_positions][-1]
        roles, drawn, row = batch.roles, {path: [path] for path in paths}, 0
        if isinstance(roles, Relations):
            ways = [traced(paths, roles, i, asked, causal) for i in range(len(batch))]
            row = max(range(len(ways)), key=lambda i: sum(map(bool, ways[i][1].values())))
            places, drawn = ways[row]
            shown = placed(places, task.n_positions)
        else:
            shown = with_query(Roles(roles.names, roles.chain[:1]), asked)
        return cls(shown, called(batch.inputs[row], names), drawn)

    def every(self, paths: Iterable[Path]) -> list[Path]:
        """Paths as they are drawn."""
        return [drawn for path in paths for drawn in self.drawn.get(path, ())]

    def values(self, values: Mapping[Path, float]) -> dict[Path, float]:
        """What is known of paths, by what is drawn of them."""
        return {drawn: value for path, value in values.items() for drawn in self.drawn.get(path, ())}


def called(inputs: Tensor, names: Sequence[str] | None) -> list[str]:
    """What stands at each position, by name."""
    if inputs.ndim > 1:
        return []
    tokens = [int(token) for token in inputs.tolist()]
    return [names[token] if names and 0 <= token < len(names) else str(token) for token in tokens]


def traced(
    paths: Sequence[Path], roles: Relations, row: int, asked: int, causal: bool
) -> tuple[dict[int, str], dict[Path, list[Path]]]:
    """Paths of relations from the answer back: `each` is drawn where somebody reads what stands there, if anywhere.

    Returns:
        what each position in use is called; and each path's paths between them.
    """
    called = {asked: "query"}
    drawn: dict[Path, list[Path]] = {path: [] for path in paths}
    for path in reversed(paths):
        match = roles.pairs(path.query, path.key, path.chain)[row]
        match = match.tril() if causal else match
        able = match.any(1).nonzero().flatten().tolist()
        read = [position for position in able if position in called]
        for end in read or able[-1:]:
            called.setdefault(end, unused("each", called))
            for key in match[end].nonzero().flatten().tolist():
                called.setdefault(key, unused(path.key, called))
                drawn[path].append(Path(path.layer, path.head, called[end], called[key]))
    return called, drawn


def unused(name: str, called: Mapping[int, str]) -> str:
    """The name, with as many primes as tell it from others."""
    while name in called.values():
        name += "′"
    return name


def placed(called: Mapping[int, str], n: int) -> Roles:
    """Named positions as roles of one row."""
    chain = torch.full((1, len(called), n), ABSENT)
    for role, position in enumerate(called):
        chain[0, role, position] = 0
    return Roles(tuple(called.values()), chain)


def with_query(roles: Roles, asked: int) -> Roles:
    """Roles of one row whose `query` is in a chain: the picture begins there."""
    chain = roles.chain
    if "query" in roles.names and bool((chain[:, roles.index("query")] >= 0).any()):
        return roles
    number = max(0, int(chain[0, :, asked].max()))
    query = torch.full_like(chain[:, :1], ABSENT)
    query[0, 0, asked] = number
    kept = [i for i, name in enumerate(roles.names) if name != "query"]
    return Roles(("query", *(roles.names[i] for i in kept)), torch.cat([query, chain[:, kept]], 1))
