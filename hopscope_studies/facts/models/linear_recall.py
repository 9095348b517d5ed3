"""Linear attention on one-hot tokens: logits = V Σ_t w(x_t) x_t (Nichani, Lee & Bietti, 2024, section 6).

Of W_KQ only the row of the question mark is kept, since no other row is used at the end of a sentence or gets a
gradient. Every position attends as the question mark does. All weights start equal (`sequential-learning.ipynb` of
their code), so only the data distinguish tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.core.settings import setting
from hopscope.models.base import Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task

PATTERN = "blocks.0.attn.hook_pattern"


@dataclass(frozen=True)
class LinearArchitecture(Shape):
    """One head whose values are token logits; there are no embeddings."""

    start: float = setting(1e-5, "of all weights")

    n_layers = 1
    n_heads = 1
    normalised = False
    stacks = True

    def build(self, task: Task, generator: torch.Generator | None = None) -> LinearRecall:
        """The model; its weights are constants, so nothing is drawn."""
        return LinearRecall(self, self.tokens_of(task), task.d_output)


class LinearRecall(TappedModel):
    """The sum of the tokens' logits, weighted by attention.

    Args:
        architecture: its settings.
        d_vocab: number of different tokens.
        d_output: logits.

    Attributes:
        V: W_OV, the logits that a token gives every answer, (d_output, d_vocab).
        w: the attention that each token gets, (d_vocab,).
    """

    def __init__(self, architecture: LinearArchitecture, d_vocab: int, d_output: int):
        super().__init__()
        self.architecture: LinearArchitecture = architecture
        self.V = nn.Parameter(torch.full((d_output, d_vocab), architecture.start))
        self.w = nn.Parameter(torch.full((d_vocab,), architecture.start))

    @property
    def activation_names(self) -> list[str]:
        return [PATTERN, "blocks.0.hook_attn_out"]

    def outputs(self, inputs: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None) -> Tensor:
        """Logits at every position, or at the positions `at`: (batch, position, d_output).

        Positions have no effect, so attention is first summed over equal tokens. This is exact, and much faster than a
        sum over positions.
        """
        pattern = passes(tap, PATTERN, self.pattern(inputs, at if tap is None else None))[:, 0]
        counts = pattern.new_zeros(*pattern.shape[:2], len(self.w))
        counts = counts.scatter_add(-1, inputs[:, None].expand(pattern.shape), pattern)
        outputs = passes(tap, "blocks.0.hook_attn_out", counts @ self.V.T)
        if tap is None:
            return outputs
        return outputs if at is None else outputs[:, at]

    def pattern(
        self, tokens: Int[Tensor, "batch position"], at: slice | None
    ) -> Float[Tensor, "batch head query position"]:
        """The attention to each token from the positions `at`."""
        return seen_from(at, self.w[tokens][:, None, None], 0.0)


def seen_from(
    at: slice | None, scores: Float[Tensor, "batch head 1 position"], hidden: float
) -> Float[Tensor, "batch head query position"]:
    """The scores, equal for every query, as rows for the positions `at`; later positions get the score `hidden`."""
    places = torch.arange(scores.shape[-1], device=scores.device)
    asking = places if at is None else places[at]
    return scores.masked_fill(places > asking[:, None], hidden)
