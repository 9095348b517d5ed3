"""A matrix or an MLP between fixed random embeddings of inputs and outputs (Nichani, Lee & Bietti, 2024, section 4).

Scores are u_k^T W e_z, or u_k^T W_2 relu(W_1 e_z + b) (`linear_AM.ipynb`, `mlp_sweep.py` of their code). Embeddings are
random directions and stay as drawn; a matrix starts at 0, an MLP normal with variance 1 / inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.core.settings import setting
from hopscope.models.base import Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task
from hopscope.theory.memories import random_rows


@dataclass(frozen=True)
class MemoryArchitecture(Shape):
    """A memory that maps each token by itself, without attention."""

    width: int = setting(16, "of embeddings, d", low=1, high=65536)
    hidden: int = setting(0, "width of an MLP's hidden layer, m; 0: one matrix", low=0, high=1 << 20)

    @property
    def stored(self) -> int:
        """Parameters as the paper counts them: d², or 2 m d without the biases."""
        return 2 * self.hidden * self.width if self.hidden else self.width**2

    def build(self, task: Task, generator: torch.Generator | None = None) -> AssociativeMemory:
        return AssociativeMemory(self, self.tokens_of(task), task.d_output, generator)


class AssociativeMemory(TappedModel):
    """Trained weights, `W` or `W_1`, `b_1` and `W_2`, between frozen embeddings.

    Args:
        architecture: its settings.
        d_vocab: number of inputs.
        d_output: number of outputs.
        generator: draws all weights; without one they are left for `load_state_dict`.
    """

    E: Tensor
    U: Tensor

    def __init__(
        self, architecture: MemoryArchitecture, d_vocab: int, d_output: int, generator: torch.Generator | None
    ):
        super().__init__()
        self.architecture: MemoryArchitecture = architecture
        d, m = architecture.width, architecture.hidden
        self.register_buffer("E", torch.zeros(d_vocab, d) if generator is None else random_rows(d_vocab, d, generator))
        self.register_buffer(
            "U", torch.zeros(d_output, d) if generator is None else random_rows(d_output, d, generator)
        )
        if not m:
            self.W = nn.Parameter(torch.zeros(d, d))
            return
        self.W_1 = nn.Parameter(torch.zeros(m, d) if generator is None else normal(m, d, generator))
        self.b_1 = nn.Parameter(torch.zeros(m))
        self.W_2 = nn.Parameter(torch.zeros(d, m) if generator is None else normal(d, m, generator))

    @property
    def activation_names(self) -> list[str]:
        return ["hook_embed", *(["mlp.hook_post"] if self.architecture.hidden else []), "hook_recalled"]

    def outputs(self, inputs: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None) -> Tensor:
        """Scores of the outputs, position by position: (batch, position, d_output)."""
        recalled = self.recalled(passes(tap, "hook_embed", self.E[inputs]), tap)
        return (recalled if at is None else recalled[:, at]) @ self.U.T

    def recalled(self, x: Float[Tensor, "batch position d"], tap: Tap | None) -> Float[Tensor, "batch position d"]:
        """The memory's output for embeddings."""
        if not self.architecture.hidden:
            return passes(tap, "hook_recalled", x @ self.W.T)
        hidden = passes(tap, "mlp.hook_post", torch.relu(x @ self.W_1.T + self.b_1))
        return passes(tap, "hook_recalled", hidden @ self.W_2.T)


def normal(n_out: int, n_in: int, generator: torch.Generator) -> Float[Tensor, "n_out n_in"]:
    """Normal random numbers of variance 1 / n_in."""
    return torch.randn(n_out, n_in, generator=generator) / n_in**0.5
