"""Two attention layers among frozen random embeddings (Bietti et al., 2023, arXiv:2306.00802, section 4.2).

Training changes only where positions attend (`W_K1`, `W_K2`) and the output (`W_O2` and, optionally, a linear layer
`W_F`); embeddings and values stay as drawn. In high dimension random vectors are nearly orthogonal, so each of the
three matrices acts as an associative memory, a sum of outer products. The measure `memory_recall` shows what it has
stored. There is no LayerNorm, and W_Q is the identity.
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

TRAINED = ("W_O2", "W_K2", "W_K1")  # in the order in which the paper finds them learnt


@dataclass(frozen=True)
class BasicArchitecture(Shape):
    """Two layers of one head each, as wide as the residual stream."""

    d_model: int = setting(128, "width; the higher, the nearer random vectors are to orthogonal", low=1, high=65536)
    feed_forward: bool = setting(False, "whether a linear layer follows, which can hold global bigrams")
    blank: bool = setting(False, "whether what is trained starts at 0, as in the paper's theory")

    n_layers = 2
    n_heads = 1

    def build(self, task: Task, generator: torch.Generator | None = None) -> BasicTransformer:
        widths = {"n_positions": task.n_positions, "d_vocab": self.tokens_of(task), "d_output": task.d_output}
        return BasicTransformer(self, **widths, generator=generator)


class BasicTransformer(TappedModel):
    """Parameters are the matrices of `TRAINED` and `W_F`; frozen weights are buffers. Weights are applied as x W.

    Args:
        architecture: its settings.
        n_positions: the longest sequence.
        d_vocab: number of different tokens.
        d_output: outputs per position.
        generator: draws embeddings from N(0, 1) and other weights uniformly in ±1/√d_model, as in the authors' code.
            Without one, load them with `load_state_dict`.
    """

    W_E: Tensor
    W_pos: Tensor
    W_U: Tensor
    W_V1: Tensor
    W_O1: Tensor
    W_V2: Tensor
    W_O2: Tensor
    W_K2: Tensor
    W_K1: Tensor

    def __init__(
        self,
        architecture: BasicArchitecture,
        *,
        n_positions: int,
        d_vocab: int,
        d_output: int,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.architecture: BasicArchitecture = architecture
        d_model = architecture.d_model

        def normal(rows: int) -> Tensor:
            return torch.zeros(rows, d_model) if generator is None else drawn_normal(rows, d_model, generator)

        def even(columns: int = d_model) -> Tensor:
            shape = (d_model, columns)
            return torch.zeros(shape) if generator is None else drawn_even(shape, generator) / math.sqrt(d_model)

        self.register_buffer("W_E", normal(d_vocab))
        self.register_buffer("W_pos", normal(n_positions))
        self.register_buffer("W_U", even(d_output))
        for name in ("W_V1", "W_O1", "W_V2"):
            self.register_buffer(name, even())
        for name in TRAINED:
            drawn = even()
            self.register_parameter(name, nn.Parameter(torch.zeros_like(drawn) if architecture.blank else drawn))
        self.W_F = nn.Parameter(torch.zeros(d_model, d_model)) if architecture.feed_forward else None

    @property
    def activation_names(self) -> list[str]:
        names = ["hook_embed", "hook_pos_embed"]
        for layer in range(2):
            fed = ["hook_resid_mid", "hook_mlp_out"] if layer and self.W_F is not None else []
            local = ["hook_resid_pre", "attn.hook_pattern", "hook_attn_out", *fed, "hook_resid_post"]
            names += [f"blocks.{layer}.{name}" for name in local]
        return names

    def outputs(self, inputs: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None) -> Tensor:
        """Logits at every position, or at the positions `at`: (batch, position, d_output)."""
        x = self.embed(inputs, tap)
        x = passes(tap, "blocks.0.hook_resid_pre", x)
        x = x + self.attention(0, x, self.W_K1, self.W_V1 @ self.W_O1, tap)
        x = passes(tap, "blocks.0.hook_resid_post", x)
        x = passes(tap, "blocks.1.hook_resid_pre", x)
        x = x + self.attention(1, x, self.W_K2, self.W_V2 @ self.W_O2, tap)
        return self.read_off(self.fed_forward(x, tap), at)

    def embed(self, tokens: Int[Tensor, "batch position"], tap: Tap | None) -> Float[Tensor, "batch position d_model"]:
        n = tokens.shape[1]
        if n > len(self.W_pos):
            raise BadInput(f"this model reads at most {len(self.W_pos)} positions; got {n}")
        embedded = passes(tap, "hook_embed", self.W_E[tokens])
        return embedded + passes(tap, "hook_pos_embed", self.W_pos[:n].expand_as(embedded))

    def attention(
        self, layer: int, x: Float[Tensor, "batch position d_model"], W_K: Tensor, W_OV: Tensor, tap: Tap | None
    ) -> Float[Tensor, "batch position d_model"]:
        """The output of a layer's one head, which attends causally and has no query weights."""
        scores = x @ (x @ W_K).mT / math.sqrt(self.architecture.d_model)
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=x.device).triu(1)
        pattern = scores.masked_fill(hidden, -math.inf).softmax(-1)[:, None]
        pattern = passes(tap, f"blocks.{layer}.attn.hook_pattern", pattern)
        return passes(tap, f"blocks.{layer}.hook_attn_out", pattern[:, 0] @ (x @ W_OV))

    def fed_forward(
        self, x: Float[Tensor, "batch position d_model"], tap: Tap | None
    ) -> Float[Tensor, "batch position d_model"]:
        """The residual stream at the end, with the output of the linear layer if there is one."""
        if self.W_F is not None:
            x = passes(tap, "blocks.1.hook_resid_mid", x)
            x = x + passes(tap, "blocks.1.hook_mlp_out", x @ self.W_F)
        return passes(tap, "blocks.1.hook_resid_post", x)

    def read_off(self, stream: Float[Tensor, "batch position d_model"], at: slice | None) -> Tensor:
        return (stream if at is None else stream[:, at]) @ self.W_U


def drawn_normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Standard normal numbers, on the generator's device."""
    return torch.randn(rows, columns, generator=generator, device=generator.device)


def drawn_even(shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Uniform numbers in ±1, on the generator's device."""
    return 2 * torch.rand(shape, generator=generator, device=generator.device) - 1
