"""A mixture of h − 1 heads: attention as experts that each leave one head out (Peng et al., 2020, arXiv:2005.06537).

The paper's experts and gate; its training, which takes turns between the two, is not part of a rule of attention.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.models.attention.base import Attention, Heads, Mask, Output, Own, Pattern, Results, Stream
from hopscope.models.attention.softmax import Softmax


@dataclass(frozen=True)
class HMinusOne(Attention):
    """Σ_i g_i f_i with f_i = h/(h − 1) Σ_(j≠i) head_j and g = softmax of a small MLP on the mean of the layer's inputs.

    That is softmax attention whose head j weighs h (1 − g_j)/(h − 1): weights from 0 to h/(h − 1) with sum h, so that
    at most one head is dropped. With g even it is softmax attention. The mean is over a position and those before it
    (ours), so that nothing later is seen.
    """

    hidden: int = setting(16, "hidden width of the gate's MLP", low=1, high=65536)

    def own_of(self, n_heads: int, d_model: int, d_head: int) -> dict[str, Tensor]:
        if n_heads < 2:
            raise BadInput(f"h_minus_one leaves a head out, so it needs 2 heads or more; got {n_heads}")
        return {
            "W_gate_in": torch.zeros(d_model, self.hidden),
            "b_gate_in": torch.zeros(self.hidden),
            "W_gate_out": torch.zeros(self.hidden, n_heads),
            "b_gate_out": torch.zeros(n_heads),
        }

    def gate(self, x: Stream, own: Own) -> Float[Tensor, "batch position head"]:
        """How much of each expert, the one without head i, every position takes: a distribution over heads."""
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        mean = x.cumsum(1) / count[:, None]
        hidden = torch.tanh(mean @ own["W_gate_in"] + own["b_gate_in"])
        return (hidden @ own["W_gate_out"] + own["b_gate_out"]).softmax(-1)

    def read_out(self, z: Results, x: Stream, weight: Output, own: Own) -> tuple[Tensor, Tensor]:
        n_heads = z.shape[2]
        weights = n_heads * (1 - self.gate(x, own)) / (n_heads - 1)
        return z * weights[..., None].to(z.dtype), weight

    def attend(self, q: Heads, k: Heads, v: Heads, mask: Mask, own: Own) -> tuple[Pattern, Heads]:
        return Softmax().attend(q, k, v, mask, own)
