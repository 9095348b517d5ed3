"""The work that every contender of `bench.steps` does, and what it costs: two sizes of the retrieval task.

Floating-point operations of a step are counted as is usual (Kaplan et al., 2020, arXiv:2001.08361, section 2.1): a
multiplication with a matrix of P numbers costs 2 P per token forward, and twice that backward, so 6 P per token. For
attention the scores q·k and the mixture pattern·v each cost 2 T² n_heads d_head per sequence and layer forward; with
the backward pass that is 12 T² n_heads d_head. The whole square is counted, though half of it is masked: every
contender computes it. Softmax, LayerNorm, GELU, biases and AdamW are not counted, nor saved anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from hopscope.configuration import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.seeds import generator
from hopscope.tasks.retrieval import Retrieval

LEARNING_RATE = 1e-3  # paper, section 7.1, as is the weight decay
WEIGHT_DECAY = 0.1


@dataclass(frozen=True)
class Work:
    """One size: a task, an architecture and a batch. Data are drawn afresh at every step, by the same code for all."""

    name: str
    task: Retrieval
    model: Architecture
    batch: int

    def config(self, dtype: str) -> Config:
        """What `hopscope train` would be told."""
        training = Training(steps=10**9, batch=self.batch, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, dtype=dtype)
        return Config(self.task, self.model, training)

    def draw(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs (batch position feature) and targets (batch query output) of a step."""
        batch = self.task.sample(self.batch, generator(0, "train", step))
        return batch.inputs, batch.targets

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of a step, forward and backward."""
        a, tokens, queries = self.model, self.batch * self.task.n_positions, self.batch * self.task.n_chains
        d_attention = a.n_heads * a.head_width
        per_layer = 4 * a.d_model * d_attention + 2 * a.d_model * a.mlp_width
        products = 6 * tokens * a.n_layers * per_layer
        embedding = 4 * tokens * self.task.d_input * a.d_model  # its input needs no gradient
        unembedding = 6 * queries * a.d_model * self.task.d_output
        attention = 12 * self.batch * a.n_layers * self.task.n_positions**2 * d_attention
        return products + embedding + unembedding + attention

    def __str__(self) -> str:
        a, task = self.model, self.task
        return (
            f"{self.name}: retrieval N={task.n_chains} K={task.d_symbol} D={task.n_hops}, "
            f"{task.n_positions} positions, {a.n_layers} layers of {a.n_heads} head(s), d_model {a.d_model}, "
            f"batch {self.batch}; {self.flops / 1e9:.1f} GFLOP a step"
        )


SIZES = {
    "demo": Work("demo", Retrieval(n_hops=2), Architecture(n_layers=4, n_heads=1, d_model=128), batch=128),
    "paper": Work("paper", Retrieval(n_hops=5), Architecture(n_layers=8, n_heads=8, d_model=128), batch=512),
}
