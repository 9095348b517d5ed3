"""SwitchHead: few heads with mixtures of experts for values and outputs (Csordás et al., 2023, arXiv:2312.07987).

After the authors' code, RobertCsordas/switchhead. Their layer has no biases and no LayerNorm; here the layer supplies
both, and the model's position code applies.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.models.attention.base import Heads, Output, Own, Results, Stream
from hopscope.models.attention.softmax import Softmax

Gates = Float[Tensor, "batch position head expert"]


@dataclass(frozen=True)
class SwitchHead(Softmax):
    """Each head has E value matrices and E output matrices; every position chooses k of each, with sigmoid gates.

    The value at a key is Σ gate_e(x_key) x W_V[e]; the output at a query is Σ gate_e(x_query) z W_O[e]. Queries, keys
    and patterns are those of softmax attention, one pattern per head whatever E is. With one expert values are not
    gated, and outputs still are. Expert 0 is the layer's own W_V and W_O.
    """

    experts: int = setting(4, "E, experts of each head", low=1, high=256)
    chosen: int = setting(2, "k, experts that each position uses; no effect with one expert", low=1, high=256)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chosen > max(2, self.experts):
            raise BadInput(f"chosen must be at most experts, {self.experts}; got {self.chosen}")

    def own_of(self, n_heads: int, d_model: int, d_head: int) -> dict[str, Tensor]:
        gate = torch.zeros(n_heads, d_model, self.experts)
        if self.experts == 1:
            return {"W_gate_O": gate}
        more = self.experts - 1
        return {
            "W_gate_V": gate,
            "W_gate_O": gate.clone(),
            "W_V_more": torch.zeros(n_heads, more, d_model, d_head),
            "W_O_more": torch.zeros(n_heads, more, d_head, d_model),
        }

    def draw(self, own: Own, generator: torch.Generator) -> None:
        """Give the gates of all experts the same initial norm, as in the authors' code, so that none is favoured."""
        for name in own.keys() & {"W_gate_V", "W_gate_O"}:
            norms = own[name].norm(dim=1, keepdim=True)
            own[name].mul_(norms.mean() / norms.clamp(min=1e-12))

    def gates(self, x: Stream, weight: Float[Tensor, "head d_model expert"]) -> Gates:
        """Sigmoids of the k highest scores, 0 elsewhere."""
        scores = torch.einsum("bpd,hde->bphe", x, weight)
        if self.chosen >= self.experts:
            return scores.sigmoid()
        chosen = scores.topk(self.chosen, -1).indices  # before the sigmoid, which rounds high scores to the same value
        return torch.zeros_like(scores).scatter(-1, chosen, scores.sigmoid().gather(-1, chosen))

    def values(self, v: Heads, x: Stream, bias: Float[Tensor, "head d_head"], own: Own) -> Heads:
        if self.experts == 1:
            return v
        gates, shift = self.gates(x, own["W_gate_V"]).transpose(1, 2), bias[:, None]  # batch head position expert
        others = torch.einsum("bpd,hedk,bhpe->bhpk", x, own["W_V_more"], gates[..., 1:])
        return (v - shift) * gates[..., :1] + others + shift

    def read_out(self, z: Results, x: Stream, weight: Output, own: Own) -> tuple[Tensor, Tensor]:
        every = weight[:, None] if self.experts == 1 else torch.cat([weight[:, None], own["W_O_more"]], 1)
        return z[..., None, :] * self.gates(x, own["W_gate_O"])[..., None], every
