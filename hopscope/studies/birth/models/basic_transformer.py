"""Two attention layers among frozen random embeddings (Bietti et al., 2023, arXiv:2306.00802, section 4.2).

All that can be learnt is which positions attend to which (`W_K1`, `W_K2`) and what is put out (`W_O2`, perhaps a linear
`W_F`); embeddings and values stay as drawn. In high dimension random vectors are nearly orthogonal, so each of the
three matrices can only be an associative memory, a sum of outer products, and `recalls` reads off what it has stored.
No LayerNorm, W_Q = 1. `as_transformer` gives the same function as the project's Transformer, for all of its tools.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from hopscope.models.transformer import Architecture, Block, Transformer

TRAINED = ("W_O2", "W_K2", "W_K1")  # in the order in which the paper finds them learnt


class BasicTransformer(nn.Module):
    """Parameters are the matrices of `TRAINED` (and `W_F`); buffers all that is frozen. Rows are inputs: x W.

    Args:
        d_model: width, the higher the nearer to orthogonal.
        d_vocab: number of different tokens, in and out.
        n_positions: the longest sequence.
        generator: draws embeddings from N(0, 1), all else evenly in ±1/√d_model, as the authors' code does.
        feed_forward: whether to add a linear layer W_F after the second attention, which can hold global bigrams.
        blank: whether what can be learnt starts at 0, as in the paper's theory, so that attention is uniform.
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
        d_model: int,
        d_vocab: int,
        n_positions: int,
        generator: torch.Generator,
        *,
        feed_forward: bool = False,
        blank: bool = False,
    ):
        super().__init__()
        self.d_model = d_model

        def even(*shape: int) -> Tensor:
            return (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(d_model)

        self.register_buffer("W_E", torch.randn(d_vocab, d_model, generator=generator))
        self.register_buffer("W_pos", torch.randn(n_positions, d_model, generator=generator))
        self.register_buffer("W_U", even(d_model, d_vocab))
        for name in ("W_V1", "W_O1", "W_V2"):
            self.register_buffer(name, even(d_model, d_model))
        for name in TRAINED:
            drawn = even(d_model, d_model)
            self.register_parameter(name, nn.Parameter(torch.zeros_like(drawn) if blank else drawn))
        self.W_F = nn.Parameter(torch.zeros(d_model, d_model)) if feed_forward else None

    def pattern(self, x: Float[Tensor, "batch position d_model"], W_K: Tensor) -> Float[Tensor, "batch query key"]:
        """Causal attention of one head without query weights."""
        scores = x @ (x @ W_K).transpose(1, 2) / math.sqrt(self.d_model)
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(hidden, -math.inf).softmax(-1)

    def forward(
        self, tokens: Int[Tensor, "batch position"], at: Bool[Tensor, "batch position"] | None = None
    ) -> Float[Tensor, "*answer token"]:
        """Logits at every position, or at the chosen ones, one after the other."""
        x = self.W_E[tokens] + self.W_pos[: tokens.shape[1]]
        x = x + self.pattern(x, self.W_K1) @ (x @ (self.W_V1 @ self.W_O1))
        z = self.pattern(x, self.W_K2) @ (x @ self.W_V2)
        if at is not None:
            x, z = x[at], z[at]
        x = x + z @ self.W_O2
        return (x if self.W_F is None else x + x @ self.W_F) @ self.W_U

    @torch.no_grad()
    def as_transformer(self) -> Transformer:
        """The same function as a Transformer of two layers with one head each."""
        if self.W_F is not None:
            raise ValueError("a linear feed-forward layer has no place in the Transformer")
        d_vocab, d_model = self.W_E.shape
        shape = Architecture(n_layers=2, n_heads=1, d_model=d_model, mlp=False, layer_norm=False)
        widths = {"n_positions": len(self.W_pos), "d_output": d_vocab, "d_vocab": d_vocab}
        model = Transformer(shape, **widths, learned_positions=True, generator=torch.Generator().manual_seed(0))
        model.W_E.copy_(self.W_E)
        assert model.W_pos is not None
        model.W_pos.copy_(self.W_pos)
        model.W_U.copy_(self.W_U)
        one = torch.eye(d_model)
        layers = ((self.W_K1, self.W_V1, self.W_O1), (self.W_K2, self.W_V2, self.W_O2))
        for block, (W_K, W_V, W_O) in zip(model.blocks, layers, strict=True):
            assert isinstance(block, Block)
            block.attn.W_QKV.copy_(torch.stack([one, W_K, W_V])[:, None])
            block.attn.W_O.copy_(W_O[None])
        return model


def recall(scores: Float[Tensor, "item item"]) -> float:
    """Share (0–1) of items, one a row, that score highest themselves."""
    return float((scores.argmax(-1) == torch.arange(len(scores), device=scores.device)).float().mean())


@torch.no_grad()
def recalls(model: BasicTransformer, triggers: Sequence[int] | Tensor, first: int = 64) -> dict[str, float]:
    """How much of its ideal memory each matrix holds (the paper's probes).

    `W_O2`: of all tokens, those of which the value, attended to, is put out as itself. `W_K2`: of the triggers, those
    that attend most to positions after themselves. `W_K1`, `W_K1 first`: of the positions from the second on, all or
    the first 64, those that attend most to the one before.
    """
    put_out = model.W_E @ model.W_V2 @ model.W_O2 @ model.W_U
    asking = model.W_E[torch.as_tensor(triggers)]
    remapped = asking @ model.W_V1 @ model.W_O1 @ model.W_K2
    places = model.W_pos[1:] @ (model.W_pos[:-1] @ model.W_K1).T
    return {
        "W_O2": recall(put_out),
        "W_K2": recall(asking @ remapped.T),
        "W_K1": recall(places),
        "W_K1 first": recall(places[: first - 1, : first - 1]),
    }
