"""Weights set by hand: one attention map that distinguishes as many places as it has experts (ours).

The head attends uniformly to the m places before it. A source's value expert is its place modulo m, and each expert
writes the token into a slot of its own, so each slot of the sum holds one token. A destination's output expert is its
own place modulo m, and assigns each slot to its distance.
"""

from __future__ import annotations

import torch

from hopscope.models.transformer import Architecture, Transformer
from hopscope_studies.switch_head.tasks.last_tokens import LastTokens

SHARP = 1000.0  # score of a place, and of a gate


def by_hand(task: LastTokens) -> Transformer:
    """A model with one layer of one head, without norms, that is right everywhere."""
    n, m, length = task.d_vocab, task.n_places, task.length
    width = max(length, m * n)
    shape = Architecture(
        n_layers=1,
        d_model=n + length + m * n,
        d_head=width,
        mlp=False,
        layer_norm=False,
        attention=f"switch_head(experts={m}, chosen=1)",
        init="early_layers",
    )
    model = Transformer.for_task(shape, task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.W_E[:, :n] = torch.eye(n)
        assert model.W_pos is not None
        model.W_pos[:, n : n + length] = torch.eye(length)
        model.W_U[n + length :] = SHARP * torch.eye(m * n)
        attend_before(model, task)
        choose_by_place(model, task)
    return model


def attend_before(model: Transformer, task: LastTokens) -> None:
    """Queries and keys: place t matches the m places before it."""
    n, length = task.d_vocab, task.length
    W_QKV, rows = model.get_parameter("blocks.0.attn.W_QKV"), slice(n, n + length)
    behind = torch.arange(length) - torch.arange(length)[:, None]  # by row of a key, its distance to each query
    W_QKV[0, 0, rows, :length] = torch.eye(length)
    matches = ((behind >= 1) & (behind <= task.n_places)).float()
    W_QKV[1, 0, rows, :length] = SHARP * W_QKV.shape[-1] ** 0.5 * matches


def choose_by_place(model: Transformer, task: LastTokens) -> None:
    """Gates by place modulo m; value expert e writes into slot e, output expert e reads slots by their distance."""
    n, m, length = task.d_vocab, task.n_places, task.length
    attn = model.get_submodule("blocks.0.attn")
    residues = torch.arange(length) % m
    opened = SHARP * (2 * torch.nn.functional.one_hot(residues, m).float() - 1)
    values = [attn.get_parameter("W_QKV")[2, 0], *attn.get_parameter("variant.W_V_more")[0]]
    outputs = [attn.get_parameter("W_O")[0], *attn.get_parameter("variant.W_O_more")[0]]
    for name in ("V", "O"):
        attn.get_parameter(f"variant.W_gate_{name}")[0, n : n + length] = opened
    for expert in range(m):
        values[expert][:n, expert * n : (expert + 1) * n] = torch.eye(n)
        for distance in range(1, m + 1):
            slot, register = (expert - distance) % m, n + length + (distance - 1) * n
            outputs[expert][slot * n : (slot + 1) * n, register : register + n] = torch.eye(n)
