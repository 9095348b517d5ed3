"""RelP (Rezaei Jafari et al., 2025, arXiv 2508.21258): attribution patching with relevance in the place of gradients.

Layer-wise relevance propagation begins at the right answer: the logit of its token over the mean logit, or the product
with its vector. The loss of a model that has solved its task is flat, and would pass nothing back. Rules change how a
derivative is passed back, and not what is computed:

- LN-rule: the standard deviation by which a norm divides is a constant.
- Identity rule: an activation f(x) is x times the constant f(x)/x.
- Half rule: each factor of a product gets half; of attention's products these are A·V and Q·K.

The paper holds A constant. Paths are entries of A, so here A gets its half, as V does, and the softmax is passed as a
gradient. A path's score is Σ (A − A_null)·c over its entries, where c is what is passed back to A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bench.baselines.base import Clock, Proposal, signed_and_absolute
from bench.baselines.gates import Gates
from bench.metrics import Yardstick, asked
from hopscope.circuits.evaluator import Pattern
from hopscope.models.base import Replacement
from hopscope.tasks.base import Batch, TokenTask

FACTORS = ("q", "k", "v")  # of attention's products, but for patterns


def relp(lab: Yardstick, seed: int = 0) -> list[Proposal]:
    """Two orders: by signed and by absolute scores."""
    clock, gates = Clock(lab), Relevance(lab.evaluator, lab.null)
    with Rules():
        _, relevance = gates.gradient(torch.ones(gates.shape))
    return signed_and_absolute("RelP", gates.by_path(relevance), clock.cost(gates))


class Relevance(Gates):
    """Gates behind which every factor of attention's products gets half; what is passed back begins at the answer."""

    def loss(self, gates: Float[Tensor, "layer head kind"]) -> Float[Tensor, ""]:
        return answered(self.outputs(gates), self.ground.batch)

    def replaced(self, gates: Float[Tensor, "layer head kind"]) -> dict[str, Replacement]:
        factors = {f"blocks.{layer}.attn.hook_{name}" for layer in self.layers for name in FACTORS}
        halves: dict[str, Replacement] = dict.fromkeys(factors.intersection(self.model.activation_names), half)
        return super().replaced(gates) | halves

    def pattern(self, layer: int, actual: Pattern, gates: Float[Tensor, "head kind"]) -> Pattern:
        return half(super().pattern(layer, actual, gates))


def answered(outputs: Float[Tensor, "batch query output"], batch: Batch) -> Float[Tensor, ""]:
    """How much the right answers stand out, on average."""
    task, targets = batch.task, batch.targets
    if not isinstance(task, TokenTask):
        return (outputs * targets).sum(-1).mean()
    logits = task.logits(outputs).expand(-1, -1, targets.shape[-1], -1)  # one output may answer whichever hop is asked
    right = logits.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return (right - logits.mean(-1))[asked(batch)].mean()


def half(factor: Tensor) -> Tensor:
    """The same, of which half of what is passed back arrives."""
    return factor.detach() + (factor - factor.detach()) / 2


class Rules(TorchFunctionMode):
    """Within it, norms and activations pass relevance back, whatever model calls them."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        rule = RULES.get(func, func)
        return rule(*args, **(kwargs or {}))


def norm_by_rule(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """LayerNorm over the last dimension, whose standard deviation is a constant."""
    deviation = (x.var(-1, keepdim=True, correction=0) + eps).sqrt().detach()
    normalized = (x - x.mean(-1, keepdim=True)) / deviation
    scaled = normalized if weight is None else normalized * weight
    return scaled if bias is None else scaled + bias


def gelu_by_rule(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU as its input times a constant; at 0 the constant is the slope there, 1/2."""
    value, zero = F.gelu(x.detach(), approximate=approximate), x.detach() == 0
    return x * torch.where(zero, 0.5, value / torch.where(zero, 1.0, x.detach()))


RULES: dict[Callable[..., Any], Callable[..., Any]] = {F.layer_norm: norm_by_rule, F.gelu: gelu_by_rule}
