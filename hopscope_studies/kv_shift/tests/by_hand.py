"""Hand-set weights: one KV-shift layer that is an induction head, and two layers that follow three hops (ours).

In the first model keys are the previous token, (a, a') = (0, 1), and values the token itself, (b, b') = (1, 0). Queries
and keys are one-hot tokens. If a token occurred several times, a bias by distance prefers the latest occurrence. In the
second model every position gathers one hop in layer 0. In layer 1 a query finds the fact that begins with what it
gathered. It takes that fact's second token, together with what this token gathered: pointer doubling (docs/theory.md).
"""

from __future__ import annotations

import torch

from hopscope.models.transformer import Architecture, Transformer
from hopscope.tasks.last_successor import LastSuccessor
from hopscope.tasks.symbolic_retrieval import SymbolicRetrieval

SHARP = 1000.0  # score of a match
NEARER = 5.0  # by how much each further place away lowers a score
KEYS, VALUES = (0.0, 1.0), (1.0, 0.0)


def by_hand(task: LastSuccessor) -> Transformer:
    """A one-layer, one-head model without MLP and norms that predicts what followed its token last."""
    n, slope = task.d_vocab, [f"L0 {distance}:{-NEARER * distance:g}" for distance in range(1, task.length)]
    shape = Architecture(
        n_layers=1,
        d_model=2 * n,
        d_head=n,
        mlp=False,
        layer_norm=False,
        attention="kv_shift",
        positions=f"relative(start='{'; '.join(slope)}')",
        init="early_layers",
    )
    model = Transformer.for_task(shape, task)
    heads = model.get_submodule("blocks.0.attn")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("beta"):
                parameter.zero_()
        model.W_E[:, :n] = torch.eye(n)
        model.W_U[n:] = torch.eye(n) * SHARP
        strength = (SHARP * n**0.5) ** 0.5
        for part, scale in enumerate((strength, strength, 1.0)):
            heads.get_parameter("W_QKV")[part, 0, :n] = scale * torch.eye(n)
        heads.get_parameter("W_O")[0, :, n:] = torch.eye(n)
        heads.get_parameter("variant.key_mix")[0] = torch.tensor(KEYS)
        heads.get_parameter("variant.value_mix")[0] = torch.tensor(VALUES)
    return model


#: Registers of the stream, each of one-hot tokens. Behind them stand a feature of facts' first tokens, and a constant.
OWN, NEXT, SECOND, THIRD = range(4)


def three_hops(task: SymbolicRetrieval) -> Transformer:
    """A model of two layers of one head that answers three hops, for facts presented deepest first."""
    n = task.d_vocab
    shape = Architecture(
        n_layers=2,
        d_model=4 * n + 2,
        d_head=2 * n,
        mlp=False,
        layer_norm=False,
        attention="kv_shift",
        init="early_layers",
    )
    model = Transformer.for_task(shape, task)
    assert model.W_pos is not None
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.W_E[:, register(OWN, n)] = torch.eye(n)
        model.W_pos[: 2 * task.n_chains * task.n_hops : 2, -2] = 1.0
        model.W_pos[:, -1] = 1.0
        for hop, held in enumerate((NEXT, SECOND, THIRD)):
            model.W_U[register(held, n), hop * n : (hop + 1) * n] = SHARP * torch.eye(n)
        for layer, (wanted, written) in enumerate(((OWN, (NEXT,)), (NEXT, (SECOND, THIRD)))):
            look_up(model, layer, wanted, written, n)
    return model


def look_up(model: Transformer, layer: int, wanted: int, written: tuple[int, ...], n: int) -> None:
    """Let a layer find the fact that begins with the token in a register, and copy what the fact's second token holds.

    A match alone would also find the token that follows a fact's second token. So a fact's first token gets a bonus,
    in the last dimension of the head.
    """
    heads = model.get_submodule(f"blocks.{layer}.attn")
    W_QKV, W_O = heads.get_parameter("W_QKV"), heads.get_parameter("W_O")
    strength = (SHARP * (2 * n) ** 0.5) ** 0.5
    W_QKV[0, 0, register(wanted, n), :n] = strength * torch.eye(n)
    W_QKV[1, 0, register(OWN, n), :n] = strength * torch.eye(n)
    W_QKV[0, 0, -1, -1] = W_QKV[1, 0, -2, -1] = strength
    for part, target in enumerate(written):  # the second token itself, then what it gathered
        column = slice(part * n, (part + 1) * n)
        W_QKV[2, 0, register(part, n), column] = torch.eye(n)
        W_O[0, column, register(target, n)] = torch.eye(n)
    heads.get_parameter("variant.key_mix")[0] = torch.tensor(KEYS)
    heads.get_parameter("variant.value_mix")[0] = torch.tensor(VALUES)


def register(index: int, n: int) -> slice:
    """The dimensions of a register."""
    return slice(index * n, (index + 1) * n)
