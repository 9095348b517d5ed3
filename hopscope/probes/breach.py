"""A violation of theorem 1's premise: a control that probes must detect (Musat, ICLR 2025, section 5, lemma 1)."""

from __future__ import annotations

from typing import cast

import torch

from hopscope.core.settings import BadInput
from hopscope.models.base_layers import MLP, Block
from hopscope.models.transformer import Architecture, Transformer
from hopscope.problem.symbols import position_code
from hopscope.tasks.retrieval import Retrieval


def breach(task: Retrieval) -> Transformer:
    """A transformer that answers one hop in one layer where theorem 1 requires two, by violating its premise.

    Lemma 1 excludes heads that attend by absolute position alone. Here each token of the facts has such a head: through
    it every position attends to that token, whatever it holds, and copies its symbol. So the query comes to hold all N
    pairs next to its own symbol, and the MLP compares them. With u a component of (query − key), and v + S > 0 one of
    the shifted value,

        g(v + S + Mu) + g(v + S − Mu) − g(Mu) − g(−Mu) = 2(v + S) where u = 0, and v + S where M|u| is large,

    where g is the GELU, which is max(0, ·) far from 0. The sum over all pairs, minus what every pair contributes, is
    the value of the matching pair. It errs where another key comes as close as (v + S)/M in that component.

    Raises:
        BadInput: the task has more than one hop, or steps that cannot be distinguished by position (pair codes).
    """
    if task.n_hops != 1 or task.position_code != "token":
        raise BadInput("the breach is built for one hop and a position code per token")
    n, k = task.n_chains, task.d_symbol
    shape = Architecture(
        n_layers=1,
        n_heads=2 * n,
        d_model=(2 * n + 3) * k,
        d_head=k,
        d_mlp=n * (2 * k + 2),
        layer_norm=False,
        positions="input",
        mlp=True,
    )
    model = Transformer.for_task(shape, task)
    answer = slice((2 * n + 2) * k, None)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.W_E[:, : 2 * k] = torch.eye(2 * k)
        model.W_U[answer] = torch.eye(k)
        attend_by_place(model, task)
        compare(model, n, k)
    return model.eval()


SHARP = 200.0  # factor of scores: a position t tokens away scores less by SHARP · (2 − cos t − cos t/10) at K = 4
STEEP = 2000.0  # M above
SHIFT = 6.0  # S above: a standard normal number is hardly ever below −S


def attend_by_place(model: Transformer, task: Retrieval) -> None:
    """Head j attends to token j from every position, and copies its symbol into a register of its own.

    Values, at odd tokens, are also subtracted from the answer's register, to cancel what every pair contributes.
    """
    k, attention = task.d_symbol, cast(Block, model.blocks[0]).attn
    own, place = slice(0, k), slice(k, 2 * k)
    codes = position_code(torch.arange(2 * task.n_chains), k, task.position_base)
    for j, code in enumerate(codes):
        attention.b_QKV[0, j] = SHARP * k**0.5 * code
        attention.W_QKV[1, j, place] = torch.eye(k)
        attention.W_QKV[2, j, own] = torch.eye(k)
        attention.W_O[j, :, (j + 2) * k : (j + 3) * k] = torch.eye(k)
        if j % 2:
            attention.W_O[j, :, -k:] = -torch.eye(k)


def compare(model: Transformer, n_pairs: int, k: int) -> None:
    """Set the MLP's neurons: for each pair two groups of opposite sign, each with k + 1 neurons."""
    mlp = cast(MLP, cast(Block, model.blocks[0]).mlp)
    for pair in range(n_pairs):
        key, value = (2 * pair + 2) * k, (2 * pair + 3) * k
        for sign in (1, -1):
            couple = pair * (2 * k + 2) + (sign < 0) * (k + 1)
            neurons = slice(couple, couple + k + 1)
            mlp.W_in[0, neurons] = sign * STEEP
            mlp.W_in[key, neurons] = -sign * STEEP
            mlp.W_in[value : value + k, couple : couple + k] = torch.eye(k)
            mlp.b_in[couple : couple + k] = SHIFT
            mlp.W_out[couple : couple + k, -k:] = torch.eye(k)
            mlp.W_out[couple + k, -k:] = -1.0
    mlp.b_out[-k:] = -(n_pairs + 1) * SHIFT
