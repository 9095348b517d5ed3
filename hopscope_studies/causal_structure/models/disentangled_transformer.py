"""The disentangled transformer: one-hot inputs, heads that append what they read (Nichani et al., 2024, section 2.2).

Nothing is added up in the residual stream: each head's reading is appended to it, so the origin of every number is
known. One matrix per head, A, holds queries and keys together. There is no LayerNorm, MLP or value matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.core.settings import BadInput, setting
from hopscope.models.base import Shape, Tap, TappedModel, passes
from hopscope.tasks.base import Task


@dataclass(frozen=True)
class DisentangledArchitecture(Shape):
    """Layers of equally many heads; each multiplies the width of the stream by one more than its heads."""

    n_layers: int = setting(2, "number of layers", low=1, high=4)
    n_heads: int = setting(1, "attention heads per layer", low=1, high=8)
    noise: float = setting(
        0.0, "standard deviation of A at the start; 0 as in the paper, which heads beside each other need broken", low=0
    )

    def build(self, task: Task, generator: torch.Generator | None = None) -> DisentangledTransformer:
        return DisentangledTransformer(self, task.n_positions, self.tokens_of(task), task.d_output, generator)


class DisentangledTransformer(TappedModel):
    """Parameters: `A{l}`, (head, stream, stream), of layer l, and `W_U`, (stream, output); all start at 0.

    The stream begins with the token's one-hot vector, then the position's: V + T numbers. After a layer of H heads it
    is H + 1 times as wide: itself, then what each head read. Pattern = softmax(x A xᵀ) over earlier positions and the
    position itself.

    Args:
        architecture: its settings.
        n_positions: the longest sequence, T.
        d_vocab: number of different tokens, V.
        d_output: outputs per position.
        generator: draws the noise of A, if there is any; without one, load weights with `load_state_dict`.
    """

    def __init__(
        self,
        architecture: DisentangledArchitecture,
        n_positions: int,
        d_vocab: int,
        d_output: int,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.architecture: DisentangledArchitecture = architecture
        self.d_vocab, self.n_positions = d_vocab, n_positions
        width = d_vocab + n_positions
        for layer in range(architecture.n_layers):
            start = torch.zeros(architecture.n_heads, width, width)
            if generator is not None and architecture.noise:
                drawn = torch.randn(start.shape, generator=generator, device=generator.device)
                start = architecture.noise * drawn
            self.register_parameter(f"A{layer}", nn.Parameter(start))
            width *= 1 + architecture.n_heads
        self.W_U = nn.Parameter(torch.zeros(width, d_output))

    @property
    def activation_names(self) -> list[str]:
        layers = range(self.architecture.n_layers)
        heads = ("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_pattern")
        local = ("hook_resid_pre", *heads, "hook_attn_out", "hook_resid_post")
        return [f"blocks.{layer}.{name}" for layer in layers for name in local]

    def outputs(self, inputs: Int[Tensor, "batch position"], tap: Tap | None, at: slice | None) -> Tensor:
        """Logits at every position, or at the positions `at`: (batch, position, d_output)."""
        stream = self.embed(inputs)
        last = self.architecture.n_layers - 1
        for layer in range(self.architecture.n_layers):
            # The last layer is read at some positions only; nobody reads its other rows but through a tap.
            rows = at if layer == last and tap is None else None
            stream = self.layer(layer, stream, tap, rows)
            at = at if rows is None else None
        return (stream if at is None else stream[:, at]) @ self.W_U

    def embed(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position stream"]:
        n = tokens.shape[1]
        if n > self.n_positions:
            raise BadInput(f"this model reads at most {self.n_positions} positions; got {n}")
        places = torch.eye(n, self.n_positions, device=tokens.device).expand(len(tokens), -1, -1)
        return torch.cat([F.one_hot(tokens, self.d_vocab).to(places), places], -1)

    def layer(
        self, layer: int, stream: Float[Tensor, "batch position stream"], tap: Tap | None, rows: slice | None
    ) -> Float[Tensor, "batch position wider"]:
        """The stream with the readings of a layer's heads appended; only at the positions `rows`, if given.

        A tap reads the new stream at every position, so `rows` are given only without a tap.
        """
        named = f"blocks.{layer}."
        stream = passes(tap, named + "hook_resid_pre", stream)
        n, n_heads = stream.shape[1], self.architecture.n_heads
        hidden = torch.ones(n, n, dtype=torch.bool, device=stream.device).triu(1)
        asking, hidden = (stream, hidden) if rows is None else (stream[:, rows], hidden[rows])
        q = torch.einsum("bqd,hde->bqhe", asking, self.get_parameter(f"A{layer}"))
        k, v, head = stream, stream, ""  # the same for every head, unless a tap changes them
        if tap is not None:
            every, head = stream[:, :, None].expand(-1, -1, n_heads, -1), "h"
            q, k, v = (tap(f"{named}attn.hook_{x}", part) for x, part in (("q", q), ("k", every), ("v", every)))
        scores = torch.einsum(f"bqhe,bk{head}e->bhqk", q, k)
        pattern = passes(tap, named + "attn.hook_pattern", scores.masked_fill(hidden, -math.inf).softmax(-1))
        read = torch.einsum(f"bhqk,bk{head}d->bqhd", pattern, v).flatten(2)
        appended = passes(tap, named + "hook_attn_out", read)
        return passes(tap, named + "hook_resid_post", torch.cat([asking, appended], -1))


def blocks(d_vocab: int, n_positions: int) -> dict[str, slice]:
    """Slices of the stream before layer 1, for one head per layer: `token`, `position`, and both as L0H0 read them."""
    width = d_vocab + n_positions
    return {
        "token": slice(0, d_vocab),
        "position": slice(d_vocab, width),
        "read token": slice(width, width + d_vocab),
        "read position": slice(width + d_vocab, 2 * width),
    }
