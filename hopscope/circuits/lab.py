"""A lab: a model on a batch of sequences, whose losses can be measured under many interventions at once.

The lab in `evaluator` changes attention, to test paths and rows. The lab in `components.patching` cuts edges between
heads and MLPs. Searches, tests (`sequential`) and rankings use only the methods of a lab that are defined here, so they
also work with a lab of your own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.circuits.losses import Account, Loss
from hopscope.tasks.base import Batch

C = TypeVar("C")
T = TypeVar("T", bound=Hashable)


class Lab(ABC, Generic[C]):
    """A model on sequences.

    Attributes:
        batch: the sequences, with their task.
    """

    batch: Batch

    @abstractmethod
    def outputs(self, changes: Sequence[C]) -> Float[Tensor, "change batch query output"]:
        """The model's answers under each change."""

    def losses_of(self, outputs: Float[Tensor, "batch query output"]) -> Float[Tensor, "batch"]:
        """The loss of every sequence, given the outputs."""
        return self.losses_of_copies(outputs[None])[0]

    def losses_of_copies(self, outputs: Float[Tensor, "copy batch query output"]) -> Float[Tensor, "copy batch"]:
        """The loss of every sequence in every copy."""
        targets = self.batch.targets.repeat(len(outputs), *[1] * (self.batch.targets.ndim - 1))
        single = torch.vmap(lambda output, target: self.batch.task.loss(output[None], target[None]))
        return single(outputs.flatten(0, 1), targets).unflatten(0, (len(outputs), -1))

    def hits_of(self, outputs: Float[Tensor, "batch query output"]) -> Bool[Tensor, "answer"]:
        """Which answers are right, given the outputs."""
        return self.batch.task.correct(outputs, self.batch).flatten()

    def account_of(self, outputs: Float[Tensor, "batch query output"]) -> Account:
        """The losses of the sequences, the mean loss of each hop, and which answers are right, for given outputs."""
        hops = self.batch.task.by_hop(self.batch.task.hop_losses(outputs, self.batch.targets))
        return Account(self.losses_of(outputs), hops, self.hits_of(outputs))

    def accounts(self, changes: Sequence[C]) -> list[Account]:
        """The account of each change (see `account_of`)."""
        return [self.account_of(outputs) for outputs in self.outputs(changes)] if changes else []

    def sequence_losses(self, changes: Sequence[C]) -> Float[Tensor, "change batch"]:
        """The loss of every sequence under each change."""
        return self.losses_of_copies(self.outputs(changes))

    def losses(self, changes: Iterable[C]) -> list[Loss]:
        """The loss under each change, with its interval."""
        changes = list(changes)
        return [Loss.of(row) for row in self.sequence_losses(changes)] if changes else []

    def loss(self, change: C) -> Loss:
        """The loss under one change."""
        return self.losses([change])[0]

    def alone(self, changes: Mapping[T, C]) -> dict[T, Loss]:
        """The loss under each change, by the same keys. Units are ranked by it, with a change for each unit alone."""
        return dict(zip(changes, self.losses(changes.values()), strict=True))
