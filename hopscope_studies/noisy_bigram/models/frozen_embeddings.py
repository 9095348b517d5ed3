"""Two layers of one head and a ReLU MLP each, between frozen random embeddings (Chen, Bruna and Bietti, 2024).

The model of arXiv:2406.03068, after the authors' code (leichen2018/ATTN_vs_MLP): W_Q = 1, no LayerNorm, no biases.
Embeddings of tokens and positions and the unembedding stay as drawn; all else is trained. The basic model of
arXiv:2306.00802 can hold associations in attention alone. This one can also hold them in four feed-forward matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.core.settings import BadInput, setting
from hopscope.models.base import Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task

LOCAL = ("hook_resid_pre", "attn.hook_pattern", "hook_attn_out", "hook_resid_mid", "hook_mlp_out", "hook_resid_post")


@dataclass(frozen=True)
class FrozenEmbeddings(Shape):
    """Two layers of one head, as wide as the residual stream, with MLPs."""

    d_model: int = setting(64, "width (paper: 256)", low=1, high=65536)
    d_mlp: int | None = setting(None, "hidden width of the MLPs; default 4 d_model, as in the paper", low=1, high=65536)

    n_layers = 2
    n_heads = 1

    def build(self, task: Task, generator: torch.Generator | None = None) -> FrozenEmbeddingsTransformer:
        return FrozenEmbeddingsTransformer(self, task, generator)


class Attention(nn.Module):
    """One head as wide as the residual stream. Weights multiply from the right: x W."""

    def __init__(self, d_model: int, generator: torch.Generator | None):
        super().__init__()
        for name in ("W_K", "W_V", "W_O"):
            self.register_parameter(name, nn.Parameter(even(d_model, d_model, generator)))

    def scores(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position source"]:
        return x @ (x @ self.get_parameter("W_K")).mT / math.sqrt(x.shape[-1])

    def written(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        return x @ self.get_parameter("W_V") @ self.get_parameter("W_O")


class MLP(nn.Module):
    """relu(x W_in) W_out."""

    def __init__(self, d_model: int, d_mlp: int, generator: torch.Generator | None):
        super().__init__()
        self.W_in = nn.Parameter(even(d_model, d_mlp, generator))
        self.W_out = nn.Parameter(even(d_mlp, d_model, generator))

    def forward(self, x: Float[Tensor, "*n d_model"]) -> Float[Tensor, "*n d_model"]:
        return (x @ self.W_in).relu() @ self.W_out


class Layer(nn.Module):
    """Attention, then the MLP."""

    def __init__(self, d_model: int, d_mlp: int, generator: torch.Generator | None):
        super().__init__()
        self.attn = Attention(d_model, generator)
        self.mlp = MLP(d_model, d_mlp, generator)


class FrozenEmbeddingsTransformer(TappedModel):
    """Parameters are the layers' matrices. Frozen buffers are W_E and W_pos from N(0, 1), and W_U in ±1/√d_model.

    Args:
        architecture: its settings.
        task: defines the tokens and the outputs.
        generator: draws all weights; matrices other than embeddings are uniform in ±1/√inputs, as in PyTorch. Without
        one they are left for `load_state_dict`.
    """

    W_E: Tensor
    W_pos: Tensor
    W_U: Tensor

    def __init__(self, architecture: FrozenEmbeddings, task: Task, generator: torch.Generator | None = None):
        super().__init__()
        self.architecture: FrozenEmbeddings = architecture
        d_model = architecture.d_model
        self.register_buffer("W_E", normal(architecture.tokens_of(task), d_model, generator))
        self.register_buffer("W_pos", normal(task.n_positions, d_model, generator))
        self.register_buffer("W_U", even(d_model, task.d_output, generator))
        width = architecture.d_mlp or 4 * d_model
        self.blocks = nn.ModuleList(Layer(d_model, width, generator) for _ in range(architecture.n_layers))

    @property
    def activation_names(self) -> list[str]:
        layers = range(self.architecture.n_layers)
        return ["hook_embed", "hook_pos_embed", *(f"blocks.{layer}.{name}" for layer in layers for name in LOCAL)]

    def outputs(self, inputs: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None) -> Tensor:
        """Logits at every position, or at the positions `at`: (batch, position, d_output)."""
        x = self.embed(inputs, tap)
        for number, layer in enumerate(self.blocks):
            assert isinstance(layer, Layer)
            x = self.through(f"blocks.{number}.", layer, x, tap)
        return (x if at is None else x[:, at]) @ self.W_U

    def embed(self, tokens: Int[Tensor, "batch position"], tap: Tap | None) -> Float[Tensor, "batch position d_model"]:
        n = tokens.shape[1]
        if n > len(self.W_pos):
            raise BadInput(f"this model reads at most {len(self.W_pos)} positions; got {n}")
        embedded = passes(tap, "hook_embed", self.W_E[tokens])
        return embedded + passes(tap, "hook_pos_embed", self.W_pos[:n].expand_as(embedded))

    def through(
        self, name: str, layer: Layer, x: Float[Tensor, "batch position d_model"], tap: Tap | None
    ) -> Float[Tensor, "batch position d_model"]:
        """One layer: causal attention and the MLP, which both add to the stream."""
        x = passes(tap, f"{name}hook_resid_pre", x)
        scores = layer.attn.scores(x)
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=x.device).triu(1)
        pattern = scores.masked_fill(hidden, -math.inf).softmax(-1)[:, None]
        pattern = passes(tap, f"{name}attn.hook_pattern", pattern)
        x = x + passes(tap, f"{name}hook_attn_out", pattern[:, 0] @ layer.attn.written(x))
        x = passes(tap, f"{name}hook_resid_mid", x)
        x = x + passes(tap, f"{name}hook_mlp_out", layer.mlp(x))
        return passes(tap, f"{name}hook_resid_post", x)

    def association(self, token: int) -> Float[Tensor, "layer output"]:
        """The logits of each MLP for a token's embedding: U FF(e), the authors' probe."""
        return torch.stack([layer.mlp(self.W_E[token]) @ self.W_U for layer in self.blocks if isinstance(layer, Layer)])


def normal(rows: int, columns: int, generator: torch.Generator | None) -> Float[Tensor, "row column"]:
    """Standard normal numbers, on the generator's device; zeros without one."""
    if generator is None:
        return torch.zeros(rows, columns)
    return torch.randn(rows, columns, generator=generator, device=generator.device)


def even(inputs: int, outputs: int, generator: torch.Generator | None) -> Float[Tensor, "input output"]:
    """Numbers uniform in ±1/√inputs, on the generator's device; zeros without one."""
    if generator is None:
        return torch.zeros(inputs, outputs)
    drawn = torch.rand(inputs, outputs, generator=generator, device=generator.device)
    return (2 * drawn - 1) / math.sqrt(inputs)
