"""The meaning of a task's losses: baselines, floor, and the thresholds that follow from them."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Thresholds(ABC):
    """The part of a task that judges losses and accuracies; `hopscope.tasks.base.Task` is one."""

    #: The lowest loss that a perfect model reaches.
    floor = 0.0
    #: The accuracy that a perfect model reaches: 1, unless some answers cannot be known.
    best_accuracy = 1.0
    #: What to try if a model has not solved the task.
    unsolved_advice = "train it longer, or take a later --step"
    #: How a setting of the search, such as `null`, is given by the task's user.
    option = "--{}"

    @property
    @abstractmethod
    def baselines(self) -> dict[str, float]:
        """Losses to compare every curve with, worst first: those of the best answers without some information."""

    @property
    def chance(self) -> float:
        """The worst of the baselines, a guess without any information; thresholds of learning are fractions of it."""
        return next(iter(self.baselines.values()))

    @property
    def learnt_below(self) -> float:
        """A hop counts as learnt halfway from chance to the floor, unless a task overrides it (our choice)."""
        return self.floor + 0.5 * (self.chance - self.floor)

    @property
    def solved_below(self) -> float:
        """A hop counts as solved 95 % of the way from chance to the floor (our choice)."""
        return self.floor + 0.05 * (self.chance - self.floor)

    def circuit_threshold(self, model: float, null: float) -> float:
        """The loss below which a circuit is accepted: it must keep 95 % of the gap from null to model (our choice).

        A null loss above chance counts as chance, so that a confidently wrong null does not raise the threshold.
        """
        start = min(null, self.chance)
        return start - 0.95 * (start - model)

    def circuit_accuracy(self, model: float, null: float) -> float:
        """The accuracy from which a circuit is accepted: it must keep 95 % of this gap, too (our choice)."""
        return null + 0.95 * (model - null)

    @property
    def model_threshold(self) -> float:
        """Circuits are accepted only of models below this loss: 5 % of the way from floor to chance (our choice)."""
        return max(self.solved_below, self.floor + 0.05 * (self.chance - self.floor))

    @property
    def model_accuracy(self) -> float:
        """Circuits are accepted only of models from this accuracy on: 95 % of the best possible (our choice)."""
        return 0.95 * self.best_accuracy
