"""Long short-term memory between an embedding and a read-out (Hochreiter & Schmidhuber, 1997): PyTorch's own layers.

Akyürek et al. (2024, arXiv:2401.12973, section 4) compare transformers with such recurrent models.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from hopscope.core.settings import setting
from hopscope.models.base import Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task


@dataclass(frozen=True)
class LSTMShape(Shape):
    """Layers of LSTM, which have no attention."""

    depth: int = setting(2, "layers of LSTM", low=1, high=64)
    width: int = setting(64, "of embeddings and of every layer's state", low=1, high=65536)

    def build(self, task: Task, generator: torch.Generator | None = None) -> LSTM:
        return LSTM(self, self.tokens_of(task), task.d_output, generator)


class LSTM(TappedModel):
    """An embedding `W_E`, PyTorch's `nn.LSTM`, and a read-out `W_U`.

    Args:
        architecture: its settings.
        d_vocab: number of tokens.
        d_output: number of outputs.
        generator: draws all weights; without one they are left for `load_state_dict`.
    """

    def __init__(self, architecture: LSTMShape, d_vocab: int, d_output: int, generator: torch.Generator | None):
        super().__init__()
        self.architecture: LSTMShape = architecture
        width = architecture.width
        self.W_E, self.W_U = nn.Parameter(torch.zeros(d_vocab, width)), nn.Parameter(torch.zeros(width, d_output))
        self.layers = nn.LSTM(width, width, architecture.depth, batch_first=True)
        for weight in self.parameters() if generator is not None else ():  # from U(−1/√width, 1/√width), as PyTorch's
            nn.init.uniform_(weight, -(width**-0.5), width**-0.5, generator=generator)

    @property
    def activation_names(self) -> list[str]:
        return ["hook_embed", "hook_state"]

    def outputs(self, inputs: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None) -> Tensor:
        """Scores of the outputs, position by position: (batch, position, d_output)."""
        state = passes(tap, "hook_state", self.layers(passes(tap, "hook_embed", self.W_E[inputs]))[0])
        return (state if at is None else state[:, at]) @ self.W_U
