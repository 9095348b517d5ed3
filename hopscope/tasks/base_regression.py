"""Tasks of in-context regression: vectors as inputs, real numbers as targets, squared error.

The function to be inferred is drawn anew for every sequence; the context holds examples of it. The oracle is
`brute_force`: the posterior mean of the target, in float64, which minimises the expected squared error. `bayes_loss` is
that error.
"""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from hopscope.tasks.base import Batch, Task


class RegressionTask(Task):
    """Real-valued targets; the loss is the mean squared error, times `scale`.

    Outputs and targets are (batch, query, output). There is one loss, unless a task overrides `hop_names`.
    """

    d_input: int
    #: Factor of squared errors: ½ where a source has it.
    scale: ClassVar[float] = 1.0

    hop_names = ("y",)

    def hop_losses(
        self, outputs: Float[Tensor, "batch query output"], targets: Float[Tensor, "batch query output"]
    ) -> Float[Tensor, "hop"]:
        return self.scale * (outputs.float() - targets).square().mean()[None]

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether each answer's loss is below `solved_below`."""
        errors = self.scale * (outputs.float() - batch.targets).square().mean(-1)
        return (errors < self.solved_below).flatten()[:, None]

    def circuit_accuracy(self, model: float, null: float) -> float:
        """Real numbers are never exactly right, so only the loss counts."""
        return 0.0

    model_accuracy = 0.0

    @property
    def model_threshold(self) -> float:
        """5 % of the way from the Bayes loss to chance (our choice)."""
        return self.bayes_loss + 0.05 * (self.chance - self.bayes_loss)
