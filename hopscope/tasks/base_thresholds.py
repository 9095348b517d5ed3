"""What losses of a task mean: baselines, floor, and the thresholds that follow from them."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Thresholds(ABC):
    """The part of a task that judges losses and accuracies; `hopscope.tasks.base.Task` is one."""

    #: The least loss that a perfect model reaches.
    floor = 0.0
    #: The accuracy that a perfect model reaches: 1, but where nobody can know every answer.
    best_accuracy = 1.0
    #: What to try with a model that has not solved it.
    unsolved_advice = "train it longer, or take a later --step"
    #: How whoever gave the task names a setting of the search, such as `null`.
    option = "--{}"

    @property
    @abstractmethod
    def baselines(self) -> dict[str, float]:
        """Losses that every curve should be read against: what the best answer without X costs, worst first."""

    @property
    def chance(self) -> float:
        """The loss of the best constant answer; thresholds of learning are fractions of it."""
        return next(iter(self.baselines.values()))

    @property
    def learnt_below(self) -> float:
        """A hop counts as learnt below this partial loss: half of chance, unless the task knows better (ours)."""
        return 0.5 * self.chance

    @property
    def solved_below(self) -> float:
        """A hop counts as solved below this partial loss: 5 % of chance (ours)."""
        return 0.05 * self.chance

    def circuit_threshold(self, model: float, null: float) -> float:
        """A circuit is accepted below this loss: one that keeps 95 % of the gap from null to model (ours).

        A null that is worse than chance counts as chance: to be loudly wrong with all heads idle earns no allowance.
        """
        start = min(null, self.chance)
        return start - 0.95 * (start - model)

    def circuit_accuracy(self, model: float, null: float) -> float:
        """A circuit is accepted from this accuracy on: one that keeps 95 % of this gap, too (ours)."""
        return null + 0.95 * (model - null)

    @property
    def model_threshold(self) -> float:
        """Circuits are accepted only of models below this loss: 5 % of the way from the floor to chance (ours)."""
        return max(self.solved_below, self.floor + 0.05 * (self.chance - self.floor))

    @property
    def model_accuracy(self) -> float:
        """Circuits are accepted only of models from this accuracy on: 95 % of the best that there is (ours)."""
        return 0.95 * self.best_accuracy
