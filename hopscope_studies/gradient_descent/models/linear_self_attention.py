"""Layers of linear self-attention and nothing else (von Oswald et al., 2023, arXiv:2212.07677, section 2 and code).

A token e_j holds x and y. A layer adds P Σ_i v_i (k_i·q_j) to each, with k = W_K e, q = W_Q e, v = W_V e. Sums are over
the examples alone: the query is no key. No softmax, no scale, no biases, no norm; the answer is the query's y entry
with the opposite sign. Layers may share their weights, which makes the model a loop (the paper's "recurrent"). Tokens
may first be embedded: a linear map, and a GELU MLP of four times its width added to it (section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.core.settings import BadInput, setting
from hopscope.models.base import Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task
from hopscope_studies.gradient_descent.pairs import PairTask

#: Variance of initial weights in the paper's code, of which a weight has one share per number that it reads.
CODE_VARIANCE = 0.002
#: What `descends` adds per example: low, because embeddings are long.
RATE = 0.001
#: A layer's activations, in the order of the forward pass.
ATTENTION = tuple(f"attn.hook_{name}" for name in ("q", "k", "v", "pattern", "z"))
LOCAL = ("hook_resid_pre", *ATTENTION, "hook_attn_out", "hook_resid_post")


@dataclass(frozen=True)
class LinearSelfAttentionShape(Shape):
    """How many layers of one head; they are as wide as a token."""

    n_layers: int = setting(1, "number of layers", low=1, high=1024)
    looped: bool = setting(False, "whether all layers share their weights")
    init_variance: float | None = setting(
        None,
        "of the initial weights, divided by the number of layers; default as in the paper's code, 0.002 / inputs",
        low=0,
        since="0.2.0",
    )
    softmax_first: bool = setting(False, "whether the first layer's attention is a softmax", since="0.2.0")
    d_embed: int = setting(
        0, "width of tokens after a trained MLP; 0: no MLP, tokens as they are", low=0, high=4096, since="0.2.0"
    )
    descends: bool = setting(
        False, "whether attention starts as a small step of gradient descent (proposition 1)", since="0.2.0"
    )

    n_heads = 1
    causal = False
    stacks = True

    @property
    def normalised(self) -> bool:
        return False

    @property
    def n_matrices(self) -> int:
        """Layers with weights of their own."""
        return 1 if self.looped else self.n_layers

    def build(self, task: Task, generator: torch.Generator | None = None) -> LinearSelfAttention:
        if not isinstance(task, PairTask):
            raise BadInput(f"{self.name()} reads pairs (x, y), and {task.name()} has none; try linear_regression")
        return LinearSelfAttention(self, task.d_input, generator)


class LinearSelfAttention(TappedModel):
    """Layers of linear self-attention with one head.

    The parameters `W_K`, `W_Q`, `W_V` and `P` are each (layer, d_token, d_token) and are applied from the left.

    Args:
        architecture: its settings.
        d_input: numbers per token; the last is y.
        generator: draws all weights from N(0, init_variance / layers). Without one they wait for `load_state_dict`.
    """

    W_K: nn.Parameter
    W_Q: nn.Parameter
    W_V: nn.Parameter
    P: nn.Parameter
    W_E: nn.Parameter
    W_in: nn.Parameter
    b_in: nn.Parameter
    W_out: nn.Parameter
    b_out: nn.Parameter

    def __init__(self, architecture: LinearSelfAttentionShape, d_input: int, generator: torch.Generator | None = None):
        super().__init__()
        self.architecture: LinearSelfAttentionShape = architecture
        self.d_token = width = architecture.d_embed or d_input
        variance = CODE_VARIANCE / width if architecture.init_variance is None else architecture.init_variance
        n, size = architecture.n_matrices, (variance / architecture.n_layers) ** 0.5
        shapes: dict[str, tuple[tuple[int, ...], float]] = dict.fromkeys(
            ("W_K", "W_Q", "W_V", "P"), ((n, width, width), size)
        )
        if architecture.d_embed:
            shapes |= embedding_shapes(d_input, width)
        for name, (shape, size) in shapes.items():
            drawn = torch.zeros(shape) if generator is None else size * torch.randn(shape, generator=generator)
            self.register_parameter(name, nn.Parameter(drawn))
        if architecture.descends and generator is not None:
            self.descend()

    @torch.no_grad()
    def descend(self) -> None:
        """Set attention to a step of gradient descent."""
        eye = torch.eye(self.d_token)
        is_y = torch.diag(eye[-1])
        for weight, value in ((self.W_K, eye - is_y), (self.W_Q, eye - is_y), (self.W_V, -is_y), (self.P, RATE * is_y)):
            weight.copy_(value)

    @property
    def activation_names(self) -> list[str]:
        return [f"blocks.{layer}.{name}" for layer in range(self.architecture.n_layers) for name in LOCAL]

    def outputs(self, inputs: Float[Tensor, "batch position d_token"], tap: Tap | None, at: slice | None) -> Tensor:
        """What each token's y would be, at every position or at the positions `at`."""
        e = self.embed(inputs)
        for layer in range(self.architecture.n_layers):
            e = self.layer(e, layer, tap)
        return -(e if at is None else e[:, at])[..., -1:]

    def embed(self, inputs: Float[Tensor, "batch position d_input"]) -> Float[Tensor, "batch position d_token"]:
        """Tokens as the first layer reads them."""
        if not self.architecture.d_embed:
            return inputs
        embedded = inputs @ self.W_E
        return embedded + F.gelu(embedded @ self.W_in + self.b_in) @ self.W_out + self.b_out

    def layer(
        self, e: Float[Tensor, "batch position d_token"], layer: int, tap: Tap | None
    ) -> Float[Tensor, "batch position d_token"]:
        """One layer, added to what it reads."""
        prefix, own = f"blocks.{layer}.", min(layer, self.architecture.n_matrices - 1)
        e = passes(tap, prefix + "hook_resid_pre", e)
        q, k, v = (
            passes(tap, f"{prefix}attn.hook_{name}", (e @ weight[own].T)[:, :, None])
            for name, weight in (("q", self.W_Q), ("k", self.W_K), ("v", self.W_V))
        )  # batch position head d_token
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
        shown = scores[..., :-1]
        if self.architecture.softmax_first and layer == 0:
            shown = (shown / self.d_token**0.5).softmax(-1)
        scores = torch.cat([shown, torch.zeros_like(scores[..., -1:])], -1)  # the query is no key
        pattern = passes(tap, prefix + "attn.hook_pattern", scores)
        z = passes(tap, prefix + "attn.hook_z", torch.einsum("bhqk,bkhd->bqhd", pattern, v))
        written = passes(tap, prefix + "hook_attn_out", z[:, :, 0] @ self.P[own].T)
        return passes(tap, prefix + "hook_resid_post", e + written)


def embedding_shapes(d_input: int, width: int) -> dict[str, tuple[tuple[int, ...], float]]:
    """By parameter of the embedding: its shape, and the standard deviation that it is drawn with."""
    weights = {"W_E": (d_input, width), "W_in": (width, 4 * width), "W_out": (4 * width, width)}
    biases = {"b_in": ((4 * width,), 0.0), "b_out": ((width,), 0.0)}
    return {**{name: (shape, shape[0] ** -0.5) for name, shape in weights.items()}, **biases}
