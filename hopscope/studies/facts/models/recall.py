"""The one-layer models of factual recall (Nichani, Lee & Bietti, 2024, sections 5 and 6, and their code).

No position is embedded and only the last token asks, so all that a layer of attention sees of a sentence is how often
each token stands in it: both models read counts, `(batch, d_vocab)`, which is exact and many times faster.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from hopscope.theory.memories import surprise

Counts = Float[Tensor, "batch d_vocab"]


def counted(tokens: Int[Tensor, "batch position"], d_vocab: int, dtype: torch.dtype = torch.float32) -> Counts:
    """How often each token stands in each sentence."""
    counts = torch.zeros(len(tokens), d_vocab, dtype=dtype)
    return counts.scatter_add_(1, tokens, torch.ones((), dtype=dtype).expand(tokens.shape))


@dataclass
class LinearRecall:
    """Linear attention on one-hot tokens: logits = V Σ_t w(x_t) x_t (section 6; `sequential-learning.ipynb`).

    Attributes:
        V: W_OV, what a token says of every answer, (d_output, d_vocab).
        w: the row of W_KQ that belongs to the asking token, what attention gives each token, (d_vocab,).
    """

    V: Float[Tensor, "d_output d_vocab"]
    w: Float[Tensor, "d_vocab"]

    @classmethod
    def constant(cls, d_output: int, d_vocab: int, start: float = 1e-5) -> LinearRecall:
        """All weights alike: nothing but the data tells one token from another."""
        even = torch.full((d_output, d_vocab), start, dtype=torch.float64)
        return cls(even, even[0].clone())

    def logits(self, counts: Counts) -> Float[Tensor, "batch d_output"]:
        """Of every answer."""
        return (counts * self.w) @ self.V.T

    def gradients(self, counts: Counts, answers: Int[Tensor, "batch"]) -> tuple[Tensor, Tensor]:
        """Of the mean cross-entropy, for V and w: sums of outer products, as the gradient lemma has them."""
        right = torch.nn.functional.one_hot(answers, len(self.V)).to(counts.dtype) / len(counts)
        off = surprise(self.logits(counts), right)  # batch d_output
        return off.T @ (counts * self.w), (counts * (off @ self.V)).sum(0)

    def step(self, counts: Counts, answers: Int[Tensor, "batch"], rate: float) -> None:
        """One step of plain gradient descent."""
        for weight, gradient in zip((self.V, self.w), self.gradients(counts, answers), strict=True):
            weight -= rate * gradient


class OneLayerRecall(nn.Module):
    """Softmax attention of H heads, and perhaps a ReLU MLP, between frozen random embeddings (section 5; `model.py`).

    No LayerNorm and no skip around attention: x = Σ_h O_h V_h^T Σ_t softmax_t(e_t^T K_h Q_h^T e_? / √d_h) e_t, then
    x + W_2 relu(W_1 x + b), read by random output vectors. Embeddings are N(0, 1/d), and not trained.

    Args:
        d_vocab: different tokens; the last one asks.
        d_output: answers.
        d: width.
        n_heads: H.
        d_head: d_h.
        d_mlp: m; 0: attention only.
        random: draws everything.
    """

    def __init__(
        self, d_vocab: int, d_output: int, d: int, n_heads: int, d_head: int, d_mlp: int, random: torch.Generator
    ):
        super().__init__()

        def normal(std: float, *shape: int) -> Tensor:
            return std * torch.randn(*shape, generator=random)

        self.register_buffer("E", normal(d**-0.5, d_vocab, d))
        self.register_buffer("U", normal(d**-0.5, d_output, d))
        self.E: Tensor
        self.U: Tensor
        self.Q, self.K, self.V = (nn.Parameter(normal(d_head**-0.5, n_heads, d, d_head)) for _ in range(3))
        self.O = nn.Parameter(normal(d**-0.5, n_heads * d_head, d))
        self.mlp = d_mlp > 0
        self.W_1, self.W_2 = (
            nn.Parameter(normal(d**-0.5, d_mlp, d)),
            nn.Parameter(normal(max(1, d_mlp) ** -0.5, d, d_mlp)),
        )
        self.b_1 = nn.Parameter(torch.zeros(d_mlp))

    @property
    def n_parameters(self) -> int:
        """4 H d_h d + 2 m d, as the paper counts: without biases, and without what is frozen."""
        return sum(part.numel() for part in (self.Q, self.K, self.V, self.O, self.W_1, self.W_2))

    def forward(self, counts: Counts) -> Float[Tensor, "batch d_output"]:
        asks = torch.einsum("d,hde->he", self.E[-1], self.Q)
        scores = torch.einsum("zd,hde,he->hz", self.E, self.K, asks) / self.Q.shape[-1] ** 0.5
        weights = (scores - scores.detach().amax(-1, keepdim=True)).exp()  # head token
        values = torch.einsum("zd,hde->zhe", self.E, self.V) * weights.T[..., None]
        mixed = (counts @ values.flatten(1)).unflatten(1, values.shape[1:])  # batch head d_head
        total = (counts @ weights.T).clamp(min=1e-30)
        x = (mixed / total[..., None]).flatten(1) @ self.O
        if self.mlp:
            x = x + torch.relu(x @ self.W_1.T + self.b_1) @ self.W_2.T
        return x @ self.U.T
