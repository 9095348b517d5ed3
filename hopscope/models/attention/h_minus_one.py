"""A mixture of h − 1 heads: each expert is attention without one head (Peng et al., 2020, arXiv:2005.06537).

Experts, gate and training are the paper's. Training alternates between the two (block coordinate descent).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.core.settings import BadInput, setting
from hopscope.models.attention.base import Output, Own, Results, Stream
from hopscope.models.attention.softmax import Softmax

Gates = Float[Tensor, "batch position head"]


@dataclass(frozen=True)
class HMinusOne(Softmax):
    """Σ_i g_i f_i with f_i = h/(h − 1) Σ_(j≠i) head_j; g is the softmax of a small MLP of the mean input of the layer.

    This is softmax attention with the weight h (1 − g_j)/(h − 1) on head j. Weights range from 0 to h/(h − 1) and sum
    to h, so at most one head is dropped. With a uniform g it is softmax attention. The mean is over a position and all
    before it (ours), which keeps the model causal.

    With `trained=in_turn`, most updates draw one expert from the gate for each sequence and layer, and train everything
    but the gates. The last updates of each period weight all experts by the gate and train only the gates. A gate that
    is `even` is not trained: this is dropout of one head, with the others scaled up.
    """

    writes_locally: ClassVar[bool] = False

    hidden: int = setting(16, "hidden width of the gate's MLP", low=1, high=65536)
    gate: str = setting("learnt", "whether the gate is learnt or even", choices=("learnt", "even"))
    trained: str = setting(
        "jointly", "experts and gate jointly, or in turn", choices=("jointly", "in_turn"), since="0.3.0"
    )
    period: int = setting(50, "updates of one period, in which both are trained in turn", low=2)
    of_gate: int = setting(10, "updates at the end of each period that train the gates", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of_gate >= self.period:
            raise BadInput(f"of_gate must be below the period, {self.period}; got {self.of_gate}")

    def own_of(self, n_heads: int, d_model: int, d_head: int) -> dict[str, Tensor]:
        if n_heads < 2:
            raise BadInput(f"h_minus_one leaves a head out, so it needs 2 heads or more; got {n_heads}")
        if self.gate == "even":
            return {}
        return {
            "W_gate_in": torch.zeros(d_model, self.hidden),
            "b_gate_in": torch.zeros(self.hidden),
            "W_gate_out": torch.zeros(self.hidden, n_heads),
            "b_gate_out": torch.zeros(n_heads),
        }

    def gates(self, x: Stream, n_heads: int, own: Own) -> Gates:
        """The weights of the experts at every position, a distribution over the head that is left out."""
        if self.gate == "even":
            return x.new_full((*x.shape[:2], n_heads), 1 / n_heads)
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        mean = x.cumsum(1) / count[:, None]
        hidden = torch.tanh(mean @ own["W_gate_in"] + own["b_gate_in"])
        return (hidden @ own["W_gate_out"] + own["b_gate_out"]).softmax(-1)

    def read_out(self, z: Results, x: Stream, weight: Output, own: Own) -> tuple[Tensor, Tensor]:
        n_heads = z.shape[2]
        gates = self.gates(x, n_heads, own)
        if "luck" in own:
            gates = one_of(gates, own["luck"])
        weights = n_heads * (1 - gates) / (n_heads - 1)
        return z * weights[..., None].to(z.dtype), weight

    # Training in turn -----------------------------------------------------------------------------------------

    @property
    def takes_turns(self) -> bool:
        return self.trained == "in_turn"

    def is_gate_s(self, step: int) -> bool:
        """Whether the update after `step` others trains the gates."""
        return self.takes_turns and self.gate == "learnt" and step % self.period >= self.period - self.of_gate

    def drawn(self, step: int, n: int, random: torch.Generator) -> dict[str, Tensor]:
        """`luck`, a uniform number in [0, 1) for each sequence, which chooses the expert at its positions."""
        if self.is_gate_s(step):
            return {}
        return {"luck": torch.rand(n, 1, 1, generator=random, device=random.device)}

    def trains(self, weight: str, step: int) -> bool:
        of_gate = "_gate_" in weight.rpartition(".")[2]
        return not self.takes_turns or of_gate == self.is_gate_s(step)


def one_of(gates: Gates, luck: Float[Tensor, "batch one one"]) -> Gates:
    """One-hot weights of an expert drawn from the gates by inverse transform sampling."""
    passed = (gates.detach().cumsum(-1) <= luck).sum(-1).clamp(max=gates.shape[-1] - 1)
    return torch.nn.functional.one_hot(passed, gates.shape[-1]).to(gates.dtype)
