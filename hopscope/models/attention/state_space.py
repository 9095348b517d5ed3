"""A selective state space, Mamba-2's, in its dual form as attention (Dao and Gu, 2024, arXiv:2405.21060)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from hopscope.models.attention.base import Heads, Mask, Own, Pattern, Stream
from hopscope.models.attention.base_recurrent import Recurrent

#: Ranges from which the authors' code draws the initial Δ (evenly in the logarithm) and A.
STEPS, RATES = (0.001, 0.1), (1.0, 16.0)


@dataclass(frozen=True)
class StateSpace(Recurrent):
    """The recurrence S_i = exp(−A Δ_i) S_(i−1) + Δ_i k_i v_i, read out as z_i = q_i · S_i.

    Pattern_ij = q_i · (Δ_j k_j) · Π_(t=j+1…i) exp(−A Δ_t) for j ≤ i. Queries are the paper's C, keys its B, values its
    x. Δ_t = softplus(x_t · W_dt + b_dt) depends on the stream; A > 0 is a number per head. A position code's bias
    enters as a factor exp(bias). Unlike in the paper's block, every head has its own queries and keys, and there is no
    gate and no skip connection inside the layer.
    """

    @property
    def shifted(self) -> bool:  # type: ignore[override]
        """Whether keys and values depend on earlier positions, as they do with a convolution."""
        return self.convolution > 1

    def own_of(self, n_heads: int, d_model: int, d_head: int) -> dict[str, Tensor]:
        step = {"W_dt": torch.zeros(n_heads, d_model), "b_dt": torch.zeros(n_heads), "log_A": torch.zeros(n_heads)}
        return {**self.own(n_heads, d_head), **step}

    def draw(self, own: Own, generator: torch.Generator) -> None:
        """As the authors' code: at x = 0, Δ is log-uniform in 0.001 … 0.1; A is uniform in 1 … 16."""
        super().draw(own, generator)
        place, rate = torch.rand(2, len(own["b_dt"]), generator=generator, device=generator.device)
        step = STEPS[0] * (STEPS[1] / STEPS[0]) ** place
        own["b_dt"].copy_(step.expm1().log())  # the inverse of softplus
        own["log_A"].copy_((RATES[0] + (RATES[1] - RATES[0]) * rate).log())

    def steps(self, x: Stream, own: Own) -> Float[Tensor, "batch head position"]:
        """Δ of every head and position, above 0."""
        return F.softplus(F.linear(x, own["W_dt"], own["b_dt"])).transpose(1, 2)

    def queries_and_keys(self, q: Heads, k: Heads, x: Stream, own: Own) -> tuple[Heads, Heads]:
        q, k = super().queries_and_keys(q, k, x, own)
        return q, k * self.steps(x, own)[..., None]

    def bias(self, mask: Mask, x: Stream, own: Own) -> Mask:
        """The mask plus the logarithm of the decay from each key to each query."""
        passed = (own["log_A"].exp()[:, None] * self.steps(x, own)).to(mask.dtype).cumsum(-1)
        return mask + passed[..., None, :] - passed[..., None]

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        return (q @ k.transpose(-1, -2)) * mask.exp(), v
