"""Weights set by hand: a trunk that does two hops and keeps the middle in dimensions of its own, and two heads (ours).

In layer 0 every position copies the token before it. In layer 1 the query attends to the position that copied the
query's own token, and takes the token there, the middle. In layer 2 it attends to the one that copied the middle, and
takes the end. Head `middle` reads the first register, head `end` the second.
"""

from __future__ import annotations

import torch

from hopscope.models.transformer import Architecture, Transformer
from hopscope_studies.non_target_heads.tasks.tagged_hops import TaggedHops

SHARP = 1000.0  # score of a match
#: Registers of the stream, each a one-hot token; then one-hot positions, and a mark on the second token of a pair.
OWN, BEFORE, MIDDLE, END = range(4)


def by_hand(task: TaggedHops) -> Transformer:
    """Three layers of one head, without MLP and norms, with learnt positions."""
    n, places = task.d_vocab, task.n_positions
    width = max(n, places) + 1
    shape = Architecture(
        n_layers=3, d_model=4 * n + places + 1, d_head=width, mlp=False, layer_norm=False, init="early_layers"
    )
    model = Transformer.for_task(shape, task)
    assert model.W_pos is not None
    place = slice(4 * n, 4 * n + places)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.W_E[:, register(OWN, n)] = torch.eye(n)
        model.W_pos[:, place] = torch.eye(places)
        model.W_pos[1 : 4 * task.n_chains : 2, -1] = 1.0
        for head, held in enumerate((MIDDLE, END)):
            model.W_U[register(held, n), head * n : (head + 1) * n] = SHARP * torch.eye(n)
        gather(model, place, n)
        for layer, (wanted, written) in enumerate(((OWN, MIDDLE), (MIDDLE, END)), 1):
            look_up(model, layer, wanted, written, n)
    return model


def weights(model: Transformer, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """W_QKV and W_O of a layer."""
    heads = model.get_submodule(f"blocks.{layer}.attn")
    return heads.get_parameter("W_QKV"), heads.get_parameter("W_O")


def gather(model: Transformer, place: slice, n: int) -> None:
    """Make every position attend in layer 0 to the one before it and write that token into a register."""
    W_QKV, W_O = weights(model, 0)
    count = place.stop - place.start
    strength = (SHARP * W_QKV.shape[-1] ** 0.5) ** 0.5
    W_QKV[0, 0, place, :count] = strength * torch.eye(count)
    W_QKV[1, 0, place, :count] = strength * torch.eye(count).roll(1, 1)
    W_QKV[2, 0, register(OWN, n), :n] = torch.eye(n)
    W_O[0, :n, register(BEFORE, n)] = torch.eye(n)


def look_up(model: Transformer, layer: int, wanted: int, written: int, n: int) -> None:
    """Make a layer find an earlier occurrence of one register's token and write the token there into another register.

    A match alone would also find the token after a pair that ends with the same token. Second tokens of pairs therefore
    get a bonus, which every position asks for by its place.
    """
    W_QKV, W_O = weights(model, layer)
    strength = (SHARP * W_QKV.shape[-1] ** 0.5) ** 0.5
    W_QKV[0, 0, register(wanted, n), :n] = strength * torch.eye(n)
    W_QKV[1, 0, register(BEFORE, n), :n] = strength * torch.eye(n)
    W_QKV[0, 0, 4 * n : -1, -1] = W_QKV[1, 0, -1, -1] = strength
    W_QKV[2, 0, register(OWN, n), :n] = torch.eye(n)
    W_O[0, :n, register(written, n)] = torch.eye(n)


def register(index: int, n: int) -> slice:
    """The dimensions of a register."""
    return slice(index * n, (index + 1) * n)
