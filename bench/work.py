"""The work that every contender of `bench.steps` does, and what it costs: two sizes of the retrieval task.

Floating-point operations of a step are counted as is usual (Kaplan et al., 2020, arXiv:2001.08361, section 2.1): a
multiplication with a matrix of P numbers costs 2 P per token forward, and twice that backward, so 6 P per token. For
attention the scores q·k and the mixture pattern·v each cost 2 T² n_heads d_head per sequence and layer forward; with
the backward pass that is 12 T² n_heads d_head. The whole square is counted, though half of it is masked: every
contender computes it. Softmax, LayerNorm, GELU, biases and AdamW are not counted, nor saved anywhere.
In bfloat16 hopscope, uncompiled, leaves the last layer out where nothing reads it: its share of the peak counts those
products all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture
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

    @property
    def d_mlp(self) -> int:
        """Hidden width of the MLP; 0 without."""
        return self.model.mlp_width if self.model.mlp else 0

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of a step, forward and backward."""
        a, tokens, queries = self.model, self.batch * self.task.n_positions, self.batch * self.task.n_chains
        d_attention = a.n_heads * a.head_width
        per_layer = 4 * a.d_model * d_attention + 2 * a.d_model * self.d_mlp
        products = 6 * tokens * a.n_layers * per_layer
        embedding = 4 * tokens * self.task.d_input * a.d_model  # its input needs no gradient
        unembedding = 6 * queries * a.d_model * self.task.d_output
        attention = 12 * self.batch * a.n_layers * self.task.n_positions**2 * d_attention
        return products + embedding + unembedding + attention

    @cached_property
    def traffic(self) -> int:
        """Bytes that a step must move to and from memory in bfloat16, if only neighbouring elementwise work is fused.

        Numbers read and written per token and layer, forward: first LayerNorm 2 d; queries, keys and values 4 d;
        scores and softmax 4 h T; mixture 4 d, its product 2 d; sum with the stream and second LayerNorm 4 d; MLP
        2 d + 4 d_mlp; sum 3 d: 21 d + 4 d_mlp + 4 h T. Backward moves twice as much: it reads what was kept and makes
        gradients of both sides. Weights and moments are small beside it.
        """
        a, tokens = self.model, self.batch * self.task.n_positions
        forward = 21 * a.d_model + 4 * self.d_mlp + 4 * a.n_heads * self.task.n_positions
        return 3 * 2 * tokens * a.n_layers * forward

    def __str__(self) -> str:
        a, task = self.model, self.task
        return (
            f"{self.name}: retrieval N={task.n_chains} K={task.d_symbol} D={task.n_hops}, "
            f"{task.n_positions} positions, {a.n_layers} layers of {a.n_heads} head(s), d_model {a.d_model}, "
            f"batch {self.batch}; {self.flops / 1e9:.1f} GFLOP a step"
        )


SIZES = {
    "demo": Work(
        "demo",
        Retrieval(n_hops=2, order="nearest_first", position_base=100.0),
        Architecture(n_layers=4, n_heads=1, d_model=128, init="early_layers", mlp=True, positions=None),
        batch=128,
    ),
    "paper": Work(
        "paper",
        Retrieval(n_hops=5, order="nearest_first", position_base=100.0),
        Architecture(n_layers=8, n_heads=8, d_model=128, init="early_layers", mlp=True, positions=None),
        batch=512,
    ),
}
