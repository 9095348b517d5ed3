"""What a circuit is made of: rows, and the paths in them.

A *row* is the attention of one head from all positions of one role: (layer, head, attending role). A *path* is the part
of a row that falls on one attended role, of the same chain or of another. Positions that hold no role have rows too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.interventions.patterns import null, visible
from hopscope.models.base import Shape
from hopscope.problem.paths import Path
from hopscope.problem.roles import RELATIONS, Relation
from hopscope.tasks.base import Batch

#: The role of positions that hold none.
NO_ROLE = "(none)"


@dataclass(frozen=True, order=True)
class Row:
    """One head at the positions of one role; layers and heads count from 0."""

    layer: int
    head: int
    query: str

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head} {self.query}"

    @classmethod
    def parse(cls, text: str) -> Row:
        """The inverse of `str`. Raises BadInput."""
        if not (found := re.fullmatch(r"L(\d+)H(\d+) (.+)", str(text))):
            raise BadInput(f"a row must be written such as 'L1H0 value[1]'; got {text!r}")
        return cls(int(found[1]), int(found[2]), found[3])


Unit = Row | Path


def row_of(unit: Unit) -> Row:
    """The row that a path is part of; for a row, the row itself."""
    return Row(unit.layer, unit.head, unit.query)


def paths_of(units: Iterable[Unit]) -> list[Path]:
    """Units that are paths, in order."""
    return sorted(unit for unit in units if isinstance(unit, Path))


def rows_of(units: Iterable[Unit]) -> list[Row]:
    """Units that are whole rows, in order."""
    return sorted(unit for unit in units if isinstance(unit, Row))


def in_layer(layer: int, units: Iterable[Unit]) -> frozenset[Unit]:
    return frozenset(unit for unit in units if unit.layer == layer)


def given_in(layer: int, rows: Mapping[Row, object]) -> frozenset[tuple[Row, int]]:
    """A layer's rows with a given pattern, each with the identity of that pattern, as a cache key."""
    return frozenset((row, id(given)) for row, given in rows.items() if row.layer == layer)


class Ground:
    """Sequences on which units become entries of attention patterns.

    Args:
        batch: the sequences.
        architecture: the shape of the model.
    """

    def __init__(self, batch: Batch, architecture: Shape):
        self.batch, self.architecture = batch, architecture
        self.roles = batch.searched
        self.sees = visible(batch.inputs.shape[1], architecture.causal, batch.inputs.device)
        self.masks: dict[tuple[str, ...], Bool[Tensor, "batch query key"]] = {}
        self.idle: dict[str, Float[Tensor, "query key"]] = {}

    @cached_property
    def query_roles(self) -> list[str]:
        """All roles, and `NO_ROLE` if some position holds none."""
        return [*self.roles.names, *([NO_ROLE] if self.holders(NO_ROLE).any() else [])]

    def holders(self, role: str) -> Bool[Tensor, "batch position"]:
        """The positions of a role."""
        held = self.roles.held()
        return ~held.any(1) if role == NO_ROLE else held[:, self.roles.index(role)]

    def entries(self, unit: Unit) -> Bool[Tensor, "batch query key"]:
        """The entries of a head's pattern that belong to a unit."""
        key = (unit.query,) if isinstance(unit, Row) else (unit.query, unit.key, unit.chain)
        if key not in self.masks:
            if isinstance(unit, Row):
                mask = self.holders(unit.query)[..., None] & self.sees
            else:
                mask = self.roles.pairs(unit.query, unit.key, unit.chain) & self.sees
            self.masks[key] = mask
        return self.masks[key]

    def targeted(self, paths: Iterable[Path], some: Iterable[Path]) -> Bool[Tensor, "batch query"]:
        """The query positions at which exactly the paths `some`, of all the given paths, have a target."""
        some = frozenset(some)
        return torch.stack([self.entries(path).any(-1) == (path in some) for path in paths]).all(0)

    def null(self, kind: str) -> Float[Tensor, "query key"]:
        """The null pattern of a kind that does not depend on the sequence."""
        if kind not in self.idle:
            self.idle[kind] = null(kind, self.sees)
        return self.idle[kind]

    @cached_property
    def rows(self) -> list[Row]:
        """All rows of the model."""
        shape = self.architecture
        return [
            Row(layer, head, role)
            for layer in range(shape.n_layers)
            for head in range(shape.n_heads)
            for role in self.query_roles
        ]

    @cached_property
    def kinds(self) -> list[tuple[str, str, Relation]]:
        """The triples of query role, key role and relation for which some path is possible under the mask."""
        names = self.roles.names
        return [
            (query, key, relation)
            for query in names
            for key in self.roles.attended
            for relation in RELATIONS
            if bool(self.entries(Path(0, 0, query, key, relation)).any())
        ]

    def paths_in(self, row: Row) -> list[Path]:
        """All paths of a row."""
        return [Path(row.layer, row.head, *kind) for kind in self.kinds if kind[0] == row.query]

    @cached_property
    def paths(self) -> list[Path]:
        """All paths of the model."""
        return [path for row in self.rows for path in self.paths_in(row)]
