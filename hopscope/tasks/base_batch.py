"""Sequences of one task, rendered as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from jaxtyping import Shaped
from torch import Tensor

from hopscope.problem.factsheet import Draw
from hopscope.problem.oracle import Problem
from hopscope.problem.roles import Roles

if TYPE_CHECKING:
    from hopscope.tasks.base import Task


class Batch:
    """Sequences of one task. Every rendering of the draw is made when first asked for, then kept."""

    def __init__(self, task: Task, draw: Draw):
        self.task = task
        self.draw = draw

    def __len__(self) -> int:
        return len(next(iter(self.draw.values())))

    @cached_property
    def inputs(self) -> Shaped[Tensor, "batch position ..."]:
        """Features (float, batch position feature) or token numbers (int, batch position)."""
        return self.task.inputs(self.draw)

    @cached_property
    def targets(self) -> Shaped[Tensor, "batch query output"]:
        """What is to be answered at the query positions: numbers, or token numbers with `NOT_ASKED` gaps."""
        return self.task.targets(self.draw)

    @cached_property
    def roles(self) -> Roles:
        """The role and chain of every position."""
        return self.task.roles(self.draw)

    @cached_property
    def searched(self) -> Roles:
        """What circuits are searched in: of most tasks, the roles."""
        return self.task.searched_roles(self)

    def problem(self, row: int) -> Problem:
        """One sequence as facts and queries in plain Python."""
        return self.task.problem(self.draw, row)

    def problems(self) -> Iterator[Problem]:
        """All sequences as facts and queries in plain Python."""
        return (self.problem(row) for row in range(len(self)))

    def rows(self, index: slice | Tensor) -> Batch:
        """Some of the sequences."""
        return Batch(self.task, {name: values[index] for name, values in self.draw.items()})
