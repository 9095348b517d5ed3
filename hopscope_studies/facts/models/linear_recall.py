"""Linear attention on one-hot tokens: logits = V Σ_t w(x_t) x_t (Nichani, Lee & Bietti, 2024, section 6).

Of W_KQ only the row of the asking token is kept, as no other is read where a sentence ends or gets a gradient: every
position asks as that one does. Weights all start alike (`sequential-learning.ipynb` of their code), so nothing but the
data tells one token from another.
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
    """One head that reads tokens as they are and writes logits."""

    start: float = setting(1e-5, "of all weights")

    n_layers = 1
    n_heads = 1
    normalised = False

    def build(self, task: Task, generator: torch.Generator | None = None) -> LinearRecall:
        """Nothing is drawn."""
        return LinearRecall(self, self.tokens_of(task), task.d_output)


class LinearRecall(TappedModel):
    """What a token says, and how much it is listened to.

    Args:
        architecture: its settings.
        d_vocab: number of different tokens.
        d_output: logits.

    Attributes:
        V: W_OV, what a token says of every answer, (d_output, d_vocab).
        w: what attention gives each token, (d_vocab,).
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

        As positions are not told apart, tokens are counted, each as often as it is listened to: exact, and many times
        faster than a sum over positions.
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
        """How much each token is listened to, from the positions `at`."""
        return seen_from(at, self.w[tokens][:, None, None], 0.0)


def seen_from(
    at: slice | None, scores: Float[Tensor, "batch head 1 position"], hidden: float
) -> Float[Tensor, "batch head query position"]:
    """The same scores for every position, or for the positions `at`; `hidden` stands for what comes later."""
    places = torch.arange(scores.shape[-1], device=scores.device)
    asking = places if at is None else places[at]
    return scores.masked_fill(places > asking[:, None], hidden)
