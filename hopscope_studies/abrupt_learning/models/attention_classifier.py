"""Two attention layers and a classifier (Reddy, ICLR 2024, arXiv:2312.03002, section 2).

Each layer has one head as wide as the stream, which is the input itself. There is no LayerNorm, and scores are not
scaled. A ReLU network of three layers then reads every position.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from hopscope.core.settings import BadInput, setting
from hopscope.models.base import ATTENTION_NAMES, Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task


@dataclass(frozen=True)
class ClassifierArchitecture(Shape):
    """Two layers of one head each; all widths but the network's are the task's."""

    d_hidden: int = setting(128, "width of the network's two hidden layers", low=1, high=65536)

    n_layers = 2
    n_heads = 1
    stacks = True

    def build(self, task: Task, generator: torch.Generator | None = None) -> AttentionClassifier:
        if task.d_input is None:
            raise BadInput(f"{self.name()} reads vectors, and {task.name()} has tokens; choose a task of vectors")
        return AttentionClassifier(self, d_input=task.d_input, d_output=task.d_output, generator=generator)


class AttentionClassifier(TappedModel):
    """Parameters are `W_Q`, `W_K`, `W_V` (layer, d_input, d_input) and the network's; rows are inputs: x W.

    Args:
        architecture: its settings.
        d_input: numbers of an input, and of the residual stream.
        d_output: numbers put out per position.
        generator: draws weights from N(0, 1 / inputs); biases are 0. Without one they wait for `load_state_dict`.
    """

    def __init__(
        self,
        architecture: ClassifierArchitecture,
        *,
        d_input: int,
        d_output: int,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.architecture: ClassifierArchitecture = architecture

        def drawn(*shape: int) -> nn.Parameter:
            if generator is None:
                return nn.Parameter(torch.zeros(shape))
            normal = torch.randn(shape, generator=generator, device=generator.device)
            return nn.Parameter(normal / math.sqrt(shape[-2]))

        self.W_Q, self.W_K, self.W_V = (drawn(2, d_input, d_input) for _ in range(3))
        widths = (d_input, architecture.d_hidden, architecture.d_hidden, d_output)
        self.W = nn.ParameterList(drawn(a, b) for a, b in itertools.pairwise(widths))
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(width)) for width in widths[1:])

    @property
    def activation_names(self) -> list[str]:
        heads = (f"attn.hook_{name}" for name in ATTENTION_NAMES)
        local = ("hook_resid_pre", *heads, "hook_attn_out", "hook_resid_post")
        return [f"blocks.{layer}.{name}" for layer in range(2) for name in local]

    def outputs(self, inputs: Float[Tensor, "batch position d_input"], tap: Tap | None, at: slice | None) -> Tensor:
        """Logits at every position, or at the positions `at`: (batch, position, d_output)."""
        x = inputs
        for layer in range(2):
            x = passes(tap, f"blocks.{layer}.hook_resid_pre", x)
            x = x + passes(tap, f"blocks.{layer}.hook_attn_out", self.attention(layer, x, tap))
            x = passes(tap, f"blocks.{layer}.hook_resid_post", x)
        return self.read_off(x, at)

    def attention(
        self, layer: int, x: Float[Tensor, "batch position d_input"], tap: Tap | None
    ) -> Float[Tensor, "batch position d_input"]:
        """What the one head of a layer writes; q, k, v and z are read as (batch, position, head, d_input)."""
        name = f"blocks.{layer}.attn.hook_"
        weights = {"q": self.W_Q, "k": self.W_K, "v": self.W_V}
        q, k, v = (
            passes(tap, name + kind, (x @ weight[layer])[:, :, None])[:, :, 0] for kind, weight in weights.items()
        )
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        pattern = (q @ k.mT).masked_fill(hidden, -math.inf).softmax(-1)[:, None]
        pattern = passes(tap, f"{name}pattern", pattern)
        return passes(tap, f"{name}z", (pattern[:, 0] @ v)[:, :, None])[:, :, 0]

    def read_off(self, stream: Float[Tensor, "batch position d_input"], at: slice | None) -> Tensor:
        x = stream if at is None else stream[:, at]
        for last, (weight, bias) in enumerate(zip(self.W, self.b, strict=True), 1 - len(self.W)):
            x = x @ weight + bias
            x = x if last == 0 else x.relu()
        return x
