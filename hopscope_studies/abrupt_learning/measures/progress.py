"""Progress measures of in-context classification (Reddy, ICLR 2024, arXiv:2312.03002, section 3)."""

from __future__ import annotations

import torch

from hopscope.measures.base import Need, Observation
from hopscope.tasks.item_labels import ItemLabels

RANGE = (0.0, 1.0)
NEEDS = (
    Need("items and labels", lambda task, _: isinstance(task, ItemLabels)),
    Need("two layers of attention", lambda _, shape: shape.n_layers >= 2 and shape.n_heads > 0),
)


def progress(seen: Observation) -> dict[str, float]:
    """The paper's measures by name, each 0–1; of several heads the highest.

    `ILA1`: attention of labels to their own item in layer 0. `TILA2`: attention of the query to labels of its class in
    layer 1, if the context has any. `TLA2`: attention of the query to any label. `CLA`: the share of answers that name
    some label of the context.
    """
    task, batch = seen.task, seen.batch
    assert isinstance(task, ItemLabels)
    first, second = seen.cache["pattern", 0], seen.cache["pattern", 1]
    labels = torch.arange(1, task.n_positions - 1, 2, device=first.device)
    last = second[:, :, -1]
    right = batch.roles.pairs("query", "value[1]", "same")[:, -1]
    shown = right.any(-1)
    on_right = (last * right[:, None]).sum(-1)[shown]
    named = seen.outputs[:, -1].argmax(-1, keepdim=True) == batch.draw["labels"][:, :-1]
    found = {
        "ILA1": first[:, :, labels, labels - 1].mean((0, 2)).max(),
        "TLA2": last[:, :, labels].sum(-1).mean(0).max(),
        "CLA": named.any(-1).float().mean(),
    }
    return {name: float(x) for name, x in found.items()} | (
        {"TILA2": float(on_right.mean(0).max())} if len(on_right) else {}
    )
