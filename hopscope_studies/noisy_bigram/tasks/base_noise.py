"""What the tasks with a noisy trigger share: noise follows it with probability α, and the context tells the rest."""

from __future__ import annotations

import math

from hopscope.tasks.base_one_answer import OneAnswerTask


class NoisyTrigger(OneAnswerTask):
    """A task with a length, a share `alpha` of noise, and the token that is `noise`."""

    length: int
    alpha: float
    noise: int

    hop_names = ("correct", "noise")

    @property
    def global_answer(self) -> int:  # type: ignore[override]
        """What follows the trigger in every sequence alike: τ."""
        return self.noise

    @property
    def entropy(self) -> float:
        """H(α) in nats: the least expected loss where y is known."""
        return -sum(p * math.log(p) for p in (self.alpha, 1 - self.alpha) if p > 0)

    @property
    def best_accuracy(self) -> float:  # type: ignore[override]
        """Whoever always names what is likelier, noise or the answer."""
        return max(self.alpha, 1 - self.alpha)
