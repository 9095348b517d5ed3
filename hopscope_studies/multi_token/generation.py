"""Greedy generation, one character a pass or several: self-speculative decoding (Gloeckle et al., 2024, section 3.2).

After Stern et al. (2018, arXiv:1811.03115): the further output heads draft characters, and the first head accepts them
in the next pass as long as they are its own choices. So the text is the one that the first head writes by itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope_studies.multi_token.models.multi_token import MultiTokenTransformer
from hopscope_studies.multi_token.tasks.text_ahead import TextAhead


def first_alone(model: MultiTokenTransformer, task: TextAhead) -> MultiTokenTransformer:
    """The trunk with the first head alone, which is a plain transformer."""
    shape = model.architecture
    alone = shape.but(n_layers=shape.trunk + 1, n_futures=1).build(task.but(ahead=1))
    assert isinstance(alone, MultiTokenTransformer)
    weights = model.state_dict()
    alone.load_state_dict({name: weights[name] for name in alone.state_dict()})
    return alone.eval()


@torch.no_grad()
def continued(model: MultiTokenTransformer, prompt: list[int], length: int) -> tuple[list[int], int]:
    """The prompt and its greedy continuation, together `length` tokens, and the number of forward passes it took.

    Every pass runs on a full window. Causal attention does not see the zeros at its end.
    """
    known, draft, passes = list(prompt), list[int](), 0
    while len(known) < length:
        chosen = choices(model, (known + draft)[:length], length)
        passes += 1
        while draft and len(known) < length and int(chosen[len(known) - 1, 0]) == draft[0]:
            known.append(draft.pop(0))
        if len(known) < length:
            following, *draft = chosen[len(known) - 1].tolist()
            known.append(following)
    return known, passes


def choices(model: MultiTokenTransformer, tokens: list[int], length: int) -> Tensor:
    """The likeliest token by position and output head."""
    window = torch.tensor([tokens + [0] * (length - len(tokens))])
    return model(window)[0].unflatten(-1, (model.architecture.n_futures, -1)).argmax(-1)
