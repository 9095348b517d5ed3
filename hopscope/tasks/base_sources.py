"""Tasks of sequences from a random source: the distribution of the next token is known if the source is known.

Targets are the tokens that the source put out. `law` is the distribution that they were drawn from, which no model
sees. `foretold` is the best prediction from the sequence alone: the Bayes predictor where it has a closed form or can
be integrated, else the best that is known. Both give lower bounds of the loss, and models are compared with them
sequence by sequence.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.problem.factsheet import Draw
from hopscope.tasks.base import NOT_ASKED, Batch, TokenTask
from hopscope.theory.markov.chains import entropy

FLOOR_SAMPLE = 1024  # sequences on which floors are estimated
LEAST_PROBABILITY = 1e-30


class SourceTask(TokenTask):
    """Tokens from a random source; the next token is asked, as the single hop `next`."""

    hop_names = ("next",)

    @abstractmethod
    def law(self, draw: Draw) -> Float[Tensor, "batch query vocab"]:
        """The source's distribution of the next token at every query position, float64."""

    @abstractmethod
    def foretold(self, inputs: Int[Tensor, "batch position"]) -> Float[Tensor, "batch query vocab"]:
        """The best prediction from the sequences alone, float64; positive wherever the law is."""

    def asked(self, batch: Batch) -> Bool[Tensor, "batch query"]:
        """The query positions at which something is asked."""
        return batch.targets[..., 0] != NOT_ASKED

    @property
    def floors(self) -> dict[str, float]:
        """Expected losses in nats on a fixed sample: `foretold`, and `source` for a predictor that knows the source.

        `right` is the accuracy (0–1) of naming the likeliest token by `foretold`.
        """
        return floors_of(self)

    @property
    def bayes_loss(self) -> float:
        return self.floors["foretold"]

    @property
    def solved_below(self) -> float:
        """5 % of the way from the Bayes loss to chance (our choice)."""
        return self.bayes_loss + 0.05 * (self.chance - self.bayes_loss)

    @property
    def learnt_below(self) -> float:
        """Half of the way from the Bayes loss to chance (our choice)."""
        return self.bayes_loss + 0.5 * (self.chance - self.bayes_loss)

    @property
    def baselines(self) -> dict[str, float]:
        """Losses in nats: tokens equally likely; best prediction from the sequence; known source; known token."""
        floors = self.floors
        return {
            "any token": self.uniform(),
            "foretold from the sequence": floors["foretold"],
            "the source known": floors["source"],
            "foreknown": 0.0,
        }

    @property
    def best_accuracy(self) -> float:  # type: ignore[override]
        """The accuracy of naming the likeliest token by `foretold`."""
        return self.floors["right"]


def floor_sample(task: SourceTask) -> Batch:
    """The sequences that floors are estimated on, always the same."""
    return Batch(task, task.draw(FLOOR_SAMPLE, generator(0, "floor")))


@cache
def floors_of(task: SourceTask) -> dict[str, float]:
    """`SourceTask.floors`, computed once for equal tasks."""
    batch = floor_sample(task)
    law, asked, foretold = task.law(batch.draw), task.asked(batch), task.foretold(batch.inputs)
    right = law.gather(-1, foretold.argmax(-1, keepdim=True))[..., 0]
    return {
        "foretold": float(expected_loss(foretold, law)[asked].mean()),
        "source": float(entropy(law)[asked].mean()),
        "right": float(right[asked].mean()),
    }


def expected_loss(
    predicted: Float[Tensor, "*batch vocab"], law: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """Cross-entropy in nats of predicted probabilities when tokens are drawn from a law."""
    return -(law * predicted.clamp(min=LEAST_PROBABILITY).log()).sum(-1)


def expected_loss_of_logits(
    logits: Float[Tensor, "*batch vocab"], law: Float[Tensor, "*batch vocab"]
) -> Float[Tensor, "*batch"]:
    """As `expected_loss`, from logits."""
    return -(law * torch.log_softmax(logits.double(), -1)).sum(-1)
