"""The tasks with a noisy trigger: noise follows it with probability α, else the context's answer does."""

from __future__ import annotations

import math

from hopscope.tasks.base_one_answer import OneAnswerTask


class NoisyTrigger(OneAnswerTask):
    """A task with a length, a probability `alpha` of noise, and the `noise` token."""

    length: int
    alpha: float
    noise: int

    hop_names = ("correct", "noise")

    @property
    def global_answer(self) -> int:  # type: ignore[override]
        """The noise token τ, which follows the trigger in every sequence."""
        return self.noise

    @property
    def entropy(self) -> float:
        """H(α) in nats: the least expected loss if y is known."""
        return -sum(p * math.log(p) for p in (self.alpha, 1 - self.alpha) if p > 0)

    @property
    def best_accuracy(self) -> float:  # type: ignore[override]
        """The accuracy of always predicting the likelier of noise and the answer."""
        return max(self.alpha, 1 - self.alpha)
