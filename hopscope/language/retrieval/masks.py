"""Heads masked while an answer is written, several sets at once: one row of a batch for each.

The authors' code sets a masked head's scores to 0 before the softmax, so that it attends evenly to all that stands
before, from the prompt's last token on (needle_in_haystack_with_mask.py; arXiv:2404.15574, section 4). What was read
before the answer stays as it was. `zero` takes the head's output away instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from hopscope.language.heads.ablation import Head
from hopscope.language.heads.attention import Edit, Lens


class Masked(Edit):
    """Sets of heads masked, each in a row of its own.

    Args:
        sets: for each row of the batch the heads.
        lens: the model.
        zero: whether their output is 0, in place of an even look at everything.
    """

    def __init__(self, sets: Sequence[Collection[Head]], lens: Lens, zero: bool = False):
        self.zero = zero
        self.gone = torch.zeros(lens.n_layers, len(sets), lens.n_heads, dtype=torch.bool)
        for row, heads in enumerate(sets):
            for layer, head in heads:
                self.gone[layer, row, head] = True

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        if self.zero or not self.gone[layer].any():
            return pattern
        n_queries, n_keys = pattern.shape[-2:]
        seen = torch.ones(n_queries, n_keys).tril(n_keys - n_queries)
        even = (seen / seen.sum(-1, keepdim=True)).to(pattern.dtype)
        return torch.where(self.gone[layer][:, :, None, None], even, pattern)

    def output(self, layer: int, z: Tensor) -> Tensor:
        return torch.where(self.gone[layer][:, None, :, None], 0.0, z) if self.zero else z
