"""Softmax attention and perhaps an MLP between frozen random embeddings (Nichani, Lee & Bietti, 2024, section 5).

x = Σ_h O_h V_h^T Σ_t softmax_t(e_t^T K_h Q_h^T e_? / √d_h) e_t, then x + W_2 relu(W_1 x + b), read by random output
vectors (`model.py` of their code): no LayerNorm, no positions, and no skip around attention. e_? is the last token of
the vocabulary, the question mark of `factual_recall`. Answers are read at its position, so every position uses its
query.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.core.settings import setting
from hopscope.models.base import Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task
from hopscope_studies.facts.models.linear_recall import seen_from


@dataclass(frozen=True)
class OneLayerArchitecture(Shape):
    """One layer with 4 H d_h d + 2 m d parameters, counted without biases as in the paper."""

    d_model: int = setting(16, "width, d", low=1, high=65536)
    n_heads: int = setting(8, "attention heads, H", low=1, high=1024)
    d_head: int = setting(2, "width of a head, d_h", low=1, high=65536)
    d_mlp: int = setting(0, "hidden width of the MLP, m; 0: attention only", low=0, high=1 << 20)

    n_layers = 1

    @property
    def mlp(self) -> bool:  # type: ignore[override]
        return self.d_mlp > 0

    @property
    def attention_weights(self) -> int:
        """The number of attention parameters."""
        return 4 * self.n_heads * self.d_head * self.d_model

    @property
    def mlp_weights(self) -> int:
        """The number of MLP parameters, without biases."""
        return 2 * self.d_mlp * self.d_model

    def build(self, task: Task, generator: torch.Generator | None = None) -> OneLayerRecall:
        return OneLayerRecall(self, self.tokens_of(task), task.d_output, generator)


class OneLayerRecall(TappedModel):
    """One layer of H heads; embeddings are N(0, 1/d), and not trained.

    Args:
        architecture: its settings.
        d_vocab: number of tokens; the last one is the question mark.
        d_output: number of answers.
        generator: draws all weights; without one, load them with `load_state_dict`.
    """

    E: Tensor
    U: Tensor

    def __init__(
        self, architecture: OneLayerArchitecture, d_vocab: int, d_output: int, generator: torch.Generator | None
    ):
        super().__init__()
        self.architecture: OneLayerArchitecture = architecture
        d, n_heads, d_head, d_mlp = (architecture.as_dict()[n] for n in ("d_model", "n_heads", "d_head", "d_mlp"))

        def normal(fan_in: int, *shape: int) -> Tensor:
            if generator is None:
                return torch.zeros(shape)
            return fan_in**-0.5 * torch.randn(*shape, generator=generator, device=generator.device)

        self.register_buffer("E", normal(d, d_vocab, d))
        self.register_buffer("U", normal(d, d_output, d))
        self.Q, self.K, self.V = (nn.Parameter(normal(d_head, n_heads, d, d_head)) for _ in range(3))
        self.O = nn.Parameter(normal(d, n_heads * d_head, d))
        if d_mlp:
            self.W_1 = nn.Parameter(normal(d, d_mlp, d))
            self.W_2 = nn.Parameter(normal(d_mlp, d, d_mlp))
            self.b_1 = nn.Parameter(torch.zeros(d_mlp))

    @property
    def activation_names(self) -> list[str]:
        fed = ["hook_resid_mid", "hook_mlp_out"] if self.architecture.mlp else []
        local = ["attn.hook_pattern", "attn.hook_z", "hook_attn_out", *fed, "hook_resid_post"]
        return [f"blocks.0.{name}" for name in local]

    def outputs(self, inputs: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None) -> Tensor:
        """Logits at every position, or at the positions `at`: (batch, position, d_output)."""
        if tap is None:
            return self.read_off(self.stream(inputs, None, at), None)
        return self.read_off(self.stream(inputs, tap, None), at)

    def stream(
        self, tokens: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None
    ) -> Float[Tensor, "batch query d_model"]:
        """The stream that the output vectors are multiplied with."""
        pattern = passes(tap, "blocks.0.attn.hook_pattern", self.pattern(tokens, at))
        said = torch.einsum("zd,hde->zhe", self.E, self.V)
        values = nn.functional.embedding(tokens, said.flatten(1)).unflatten(-1, said.shape[1:])  # batch position head e
        z = passes(tap, "blocks.0.attn.hook_z", torch.einsum("bhqk,bkhe->bqhe", pattern, values))
        x = passes(tap, "blocks.0.hook_attn_out", z.flatten(-2) @ self.O)
        if self.architecture.mlp:
            x = passes(tap, "blocks.0.hook_resid_mid", x)
            added = torch.relu(x @ self.W_1.T + self.b_1) @ self.W_2.T
            x = x + passes(tap, "blocks.0.hook_mlp_out", added)
        return passes(tap, "blocks.0.hook_resid_post", x)

    def pattern(
        self, tokens: Int[Tensor, "batch position"], at: slice | None
    ) -> Float[Tensor, "batch head query position"]:
        """The question mark's attention, as rows for the positions `at`."""
        asks = torch.einsum("d,hde->he", self.E[-1], self.Q)
        scores = torch.einsum("zd,hde,he->hz", self.E, self.K, asks) / self.Q.shape[-1] ** 0.5
        return seen_from(at, scores[:, tokens].transpose(0, 1)[:, :, None], -torch.inf).softmax(-1)

    def read_off(self, stream: Float[Tensor, "batch position d_model"], at: slice | None) -> Tensor:
        return (stream if at is None else stream[:, at]) @ self.U.T
