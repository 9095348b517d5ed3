"""The induction circuit of items and labels as weights: a control with known numbers.

There is one head per layer and no LayerNorm. The stream holds the input (item, label) followed by a register for the
previous item. Layer 0's bias by distance attends to the previous token, and its head copies the item from there into
the register. Layer 1's head matches the query's item with that register at positions of labels, and copies the label.
"""

from __future__ import annotations

import math

import torch

from hopscope.models.base_layers import AttentionLayer
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.item_labels import ItemLabels

BEFORE = 100.0  # how much higher the previous token is scored than any other
SHARP = 400.0  # how much higher two equal items are scored than two orthogonal ones
LOUD = 50.0  # logit of an answer


def shape(task: ItemLabels) -> Architecture:
    """The architecture of the circuit."""
    d_model = task.d_input + task.d_item
    start = f"relative(start='L0 1:{BEFORE:g}')"
    return Architecture(
        2, 1, d_model, d_head=d_model, layer_norm=False, mlp=False, positions=start, init="early_layers"
    )


@torch.no_grad()
def induction(task: ItemLabels) -> Transformer:
    """The model with the circuit, for a task whose labels are one-hot."""
    model = shape(task).build(task)
    for name, parameter in model.named_parameters():
        if "positions" not in name:
            parameter.zero_()
    width, d_item, labels = task.d_input, task.d_item, slice(task.d_item, task.d_input)
    model.W_E[:, :width] = torch.eye(width)
    first, second = (block.get_submodule("attn") for block in model.blocks)
    assert isinstance(first, AttentionLayer) and isinstance(second, AttentionLayer)
    first.W_V[0, :d_item, :d_item] = torch.eye(d_item)
    first.W_O[0, :d_item, width:] = torch.eye(d_item)
    unit = math.sqrt(model.architecture.head_width)  # scores are divided by it
    second.W_Q[0, :d_item, :d_item] = second.W_K[0, width:, :d_item] = math.sqrt(SHARP * unit) * torch.eye(d_item)
    second.b_QKV[0, 0, d_item] = second.W_K[0, labels, d_item] = math.sqrt(BEFORE * unit)
    second.W_V[0, labels, labels] = second.W_O[0, labels, labels] = torch.eye(task.n_labels)
    model.W_U[labels] = LOUD * torch.eye(task.n_labels)
    return model
