"""A hand-set transformer that takes a step of gradient descent on windows (ours; after von Oswald et al., 2023).

Two layers of linear attention, no norms, no MLPs. Layer 0 brings the two previous tokens to each position, so the
position with label y_(t−1) also holds its window. Layer 1 compares that window with the last one and sums the labels.
This is the positive control, because its answers can be computed without attention (`theory.references.one_step`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope.models.transformer import Architecture, Transformer
from hopscope_studies.sequential_functions.tasks.self_generated import SelfGenerated


def descent_by_hand(task: SelfGenerated, rate: float) -> Transformer:
    """The model that outputs rate Σ y_i (z_i·z) at every place, where z_i are the windows with known labels."""
    n, places = task.d_x, task.length
    x, y, one, two, out = (slice(k * n, (k + 1) * n) for k in range(5))
    place = slice(5 * n, 5 * n + places)
    shape = Architecture(
        n_layers=2,
        n_heads=2,
        d_model=5 * n + places,
        d_head=max(places, 2 * n),
        attention="linear",
        positions="learned",
        layer_norm=False,
        mlp=False,
        init="early_layers",
    )
    model = Transformer.for_task(shape, task)
    weights = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    eye, sharp = torch.eye(n), shape.head_width**0.5  # to undo the division by √d_head
    weights["W_E"][:n, x], weights["W_E"][n:, y] = eye, eye
    weights["W_pos"][:, place] = torch.eye(places)
    for head, (back, register) in enumerate(((1, one), (2, two))):
        ask, tell, copy = weights["blocks.0.attn.W_QKV"][:, head]
        ask[place, :places] = sharp * torch.eye(places).roll(-back, 1).tril()
        tell[place, :places] = torch.eye(places)
        copy[x, :n] = eye
        weights["blocks.0.attn.W_O"][head, :n, register] = eye
    compare(weights, sharp, asked=(x, one), known=(one, two), n=n)
    weights["blocks.1.attn.W_QKV"][2, 0, y, :n] = rate * eye
    weights["blocks.1.attn.W_O"][0, :n, out] = eye
    weights["W_U"][out] = eye
    model.load_state_dict(weights)
    return model


def compare(
    weights: dict[str, Tensor], sharp: float, *, asked: tuple[slice, slice], known: tuple[slice, slice], n: int
) -> None:
    """Make layer 1's first head score the last window against the windows with known labels."""
    ask, tell, _ = weights["blocks.1.attn.W_QKV"][:, 0]
    for part, (mine, theirs) in enumerate(zip(asked, known, strict=True)):
        columns = slice(part * n, (part + 1) * n)
        ask[mine, columns] = sharp * torch.eye(n)
        tell[theirs, columns] = torch.eye(n)
