"""The gradient of the loss on layer 0's attention to the previous token, by the role of the attending position.

The bias for the previous token is one number for all rows of layer 0's pattern, so its gradient is the sum over rows of
the gradients of their scores. Split by role, it shows which positions need the head and which are harmed by it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.models.base import Model
from hopscope.tasks.base import Batch

FIRST = "blocks.0.attn.hook_pattern"


def pulls(model: Model, batch: Batch) -> dict[str, float]:
    """dL/ds by role, with s added to every row's score of the previous token; if positive, descent lowers the score.

    A row's softmax has the derivative dL/ds_k = p_k (g_k − Σ p g), with g = dL/dp.
    """
    kept: list[Tensor] = []

    def keep(pattern: Tensor) -> Tensor:
        pattern.retain_grad()
        kept.append(pattern)
        return pattern

    with torch.enable_grad():
        outputs = model(batch.inputs, at=batch.task.query_positions, replace={FIRST: keep})
        batch.task.loss(outputs, batch.targets).backward()
    model.zero_grad(set_to_none=True)
    rows = before(kept[0].detach(), kept[0].grad)
    held = batch.roles.held()[:, :, 1:]  # batch role position; the first position has no previous token
    return {name: float((rows * role).sum()) for name, role in zip(batch.roles.names, held.unbind(1), strict=True)}


def before(pattern: Float[Tensor, "batch head query key"], gradient: Tensor | None) -> Float[Tensor, "batch row"]:
    """dL/ds of each row but the first, with s the score of the previous token, summed over heads."""
    assert gradient is not None  # the loss depends on the pattern
    scores = pattern * (gradient - (pattern * gradient).sum(-1, keepdim=True))
    return scores.diagonal(-1, -2, -1).sum(1)


@torch.no_grad()
def read_by_queries(model: Model, batch: Batch) -> dict[str, float]:
    """By role, the highest mean attention (0–1) from queries to that role in any chain, over heads of later layers."""
    layers = range(1, model.architecture.n_layers)
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
    cache = model(batch.inputs, cache=names)[1]
    held = batch.roles.held().float()
    asked = held[:, batch.roles.index("query")]  # batch position
    on = torch.stack([torch.einsum("bq,bhqk,brk->hr", asked, cache[name], held) for name in names])
    most = on.flatten(0, 1).amax(0) / asked.sum()
    return dict(zip(batch.roles.names, most.tolist(), strict=True))
