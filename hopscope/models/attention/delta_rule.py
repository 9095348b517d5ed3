"""The delta rule as a layer (Schlag et al., 2021, arXiv:2102.11174; DeltaNet: Yang et al., 2024, arXiv:2406.06484)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from hopscope.models.attention.base import Heads, Mask, Own, Pattern, Stream
from hopscope.models.attention.base_recurrent import Recurrent


@dataclass(frozen=True)
class DeltaRule(Recurrent):
    """The recurrence S_i = S_(i−1) + β_i k_i (v_i − k_i · S_(i−1)), read out as z_i = q_i · S_i.

    A position replaces the share β of what its key already holds. Pattern = tril(QKᵀ) (I + tril(diag(β) KKᵀ, −1))⁻¹
    diag(β), with queries and keys of norm 1 and β = sigmoid(x · W_beta). Keys are given as √β k, which has the same
    information. A position code's bias enters as a factor exp(bias) on QKᵀ.
    """

    #: The inverse follows chains of keys that overlap within one layer, so neither theory bounds what a layer can do.
    shifted: ClassVar[bool | None] = None

    def own_of(self, n_heads: int, d_model: int, d_head: int) -> dict[str, Tensor]:
        return {**self.own(n_heads, d_head), "W_beta": torch.zeros(n_heads, d_model)}

    def queries_and_keys(self, q: Heads, k: Heads, x: Stream, own: Own) -> tuple[Heads, Heads]:
        q, k = (F.normalize(heads, dim=-1) for heads in super().queries_and_keys(q, k, x, own))
        strength = F.linear(x, own["W_beta"]).sigmoid().transpose(1, 2)  # batch head position
        return q, k * strength[..., None].sqrt()

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        scores = (q @ k.transpose(-1, -2)) * mask.exp()
        overlaps = (k @ k.transpose(-1, -2)).to(scores.dtype)  # of which only what is below the diagonal is read
        kept = torch.linalg.solve_triangular(overlaps, scores, upper=False, left=False, unitriangular=True)
        return kept * k.norm(dim=-1)[..., None, :], v
