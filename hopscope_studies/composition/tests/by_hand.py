"""Hand-set weights that copy by composition: the positive control of `composition` (ours).

The residual stream has four registers of one-hot tokens: the position's own token, the one before, the one before that,
and the answer. Two heads of fixed offset in layer 0 fill the second and the third register. A head of layer 1 finds the
position whose two predecessors are the query's last two tokens, and reads its token.
"""

from __future__ import annotations

import torch

from hopscope.models.base_layers import AttentionLayer
from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.repeated_segment import RepeatedSegment

OWN, BEFORE, SECOND, ANSWER = range(4)
SHARP = 40.0  # score of a match, and of a fixed offset


def by_hand(task: RepeatedSegment) -> Transformer:
    """A model of two layers of two heads that names the next token of a second copy from its last two tokens."""
    n = task.d_vocab
    shape = Architecture(
        n_layers=2,
        n_heads=2,
        d_model=4 * n,
        d_head=2 * n,
        mlp=False,
        layer_norm=False,
        positions=f"relative(start='L0H0 1:{SHARP:g}; L0H1 2:{SHARP:g}')",
        init="early_layers",
    )
    model = Transformer.for_task(shape, task)
    with torch.no_grad():
        for parameter in (p for name, p in model.named_parameters() if not name.endswith("beta")):
            parameter.zero_()
        model.W_E[:, place(OWN, n)] = torch.eye(n)
        model.W_U[place(ANSWER, n)] = torch.eye(n)
        for head, register in enumerate((BEFORE, SECOND)):
            copy(model, 0, head, register, n)
        matching = heads_of(model, 1)
        strength = (SHARP * (2 * n) ** 0.5) ** 0.5
        for half, (asked, stored) in enumerate(((OWN, BEFORE), (BEFORE, SECOND))):
            column = slice(half * n, (half + 1) * n)
            matching.W_QKV[0, 0, place(asked, n), column] = strength * torch.eye(n)
            matching.W_QKV[1, 0, place(stored, n), column] = strength * torch.eye(n)
        copy(model, 1, 0, ANSWER, n)
    return model


def place(register: int, n: int) -> slice:
    """The dimensions of a register."""
    return slice(register * n, (register + 1) * n)


def copy(model: Transformer, layer: int, head: int, register: int, n: int) -> None:
    """Let a head copy the attended tokens into a register."""
    heads = heads_of(model, layer)
    heads.W_QKV[2, head, place(OWN, n), :n] = torch.eye(n)
    heads.W_O[head, :n, place(register, n)] = torch.eye(n)


def heads_of(model: Transformer, layer: int) -> AttentionLayer:
    """The heads of a layer."""
    return model.get_submodule(f"blocks.{layer}.attn")  # type: ignore[return-value]
