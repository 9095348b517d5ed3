"""Weights set by hand: an induction head that predicts names (ours, after Elhage et al., 2021).

In layer 0 every position copies the token before it. In layer 1 a position attends to the positions that copied its own
token, and predicts the name tokens at these positions.
"""

from __future__ import annotations

import torch

from hopscope.models.transformer import Transformer
from hopscope_studies.multi_token.models.multi_token import MultiTokenArchitecture
from hopscope_studies.multi_token.tasks.names_in_text import NamesInText

SHARP = 1000.0  # score of a match
PREVIOUS = "relative(start='L0 1:50')"
#: Registers of the residual stream, each a one-hot code of a token.
OWN, BEFORE, ANSWER = range(3)


def by_hand(task: NamesInText) -> Transformer:
    """A trunk of one layer and one head of one layer, without MLP and norms, for a task that asks one token ahead."""
    n = task.d_vocab
    shape = MultiTokenArchitecture(
        n_layers=2, d_model=3 * n, d_head=n, mlp=False, layer_norm=False, positions=PREVIOUS, init="early_layers"
    )
    model = shape.build(task)
    one_hot, names = torch.eye(n), torch.eye(n)
    names[: task.n_words] = 0.0  # words are never second tokens
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("beta"):
                parameter.zero_()
        model.W_E[:, register(OWN, n)] = one_hot
        model.W_U[register(ANSWER, n)] = one_hot * SHARP
        first, second = (model.get_submodule(f"blocks.{layer}.attn") for layer in (0, 1))
        first.get_parameter("W_QKV")[2, 0, register(OWN, n)] = one_hot
        first.get_parameter("W_O")[0, :, register(BEFORE, n)] = one_hot
        strength = (SHARP * n**0.5) ** 0.5
        second.get_parameter("W_QKV")[0, 0, register(OWN, n)] = strength * one_hot
        second.get_parameter("W_QKV")[1, 0, register(BEFORE, n)] = strength * one_hot
        second.get_parameter("W_QKV")[2, 0, register(OWN, n)] = names
        second.get_parameter("W_O")[0, :, register(ANSWER, n)] = one_hot
    return model


def register(index: int, n: int) -> slice:
    """The dimensions of a register."""
    return slice(index * n, (index + 1) * n)
