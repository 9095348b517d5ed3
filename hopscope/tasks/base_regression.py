"""Tasks of regression in context: vectors in, real numbers asked, squared error.

What there is to be found out is a function, drawn anew for every sequence; examples of it stand in the context. The
oracle is `brute_force`: the posterior mean of what is asked, in float64, which no other prediction beats under squared
error. `bayes_loss` is what it costs.
"""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.tasks.base import Batch, Task


class RegressionTask(Task):
    """Real-valued targets; the loss is the mean squared error, times `scale`.

    Args of losses: outputs and targets are (batch, query, output). One partial loss, unless a task says otherwise.
    """

    d_input: int
    #: What squared errors are multiplied by: ½ where a source has it so.
    scale: ClassVar[float] = 1.0

    hop_names = ("y",)

    def hop_losses(
        self, outputs: Float[Tensor, "batch query output"], targets: Float[Tensor, "batch query output"]
    ) -> Float[Tensor, "hop"]:
        return self.scale * (outputs.float() - targets).square().mean()[None]

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether each answer costs less than what counts as solved."""
        errors = self.scale * (outputs.float() - batch.targets).square().mean(-1)
        return (errors < self.solved_below).flatten()[:, None]

    def circuit_accuracy(self, model: float, null: float) -> float:
        """Real numbers are never right or wrong: the loss alone decides."""
        return 0.0

    @property
    def model_accuracy(self) -> float:
        return 0.0

    @property
    def model_threshold(self) -> float:
        """5 % of the way from what can be known to chance (ours)."""
        return self.bayes_loss + 0.05 * (self.chance - self.bayes_loss)
