"""Prefix-matching score (Olsson et al., 2022): attention to positions that follow the same symbol."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from hopscope.measures.base import Observation, attention, several_positions, symbols
from hopscope.tasks.base import Batch

RANGE = (0.0, 1.0)
NEEDS = (attention, several_positions, symbols)


def prefix_score(seen: Observation) -> dict[str, float]:
    """Mean attention (0–1) from a position to all earlier ones that directly follow the same symbol, per head.

    Unlike the induction score it depends on the symbols, not on roles: it covers every position whose symbol occurred
    before. Empty if there is none, as always in a retrieval task.
    """
    return seen.attention_on(follows_same_symbol(seen.batch))


def follows_same_symbol(batch: Batch) -> Bool[Tensor, "batch position position"]:
    """True at (i, j) if j < i and positions j − 1 and i hold the same symbol."""
    symbols = batch.inputs
    if symbols.ndim == 3:  # vectors: the position code does not belong to the symbol
        symbols = symbols[..., : symbols.shape[-1] // 2]
        same = (symbols[:, :, None] == symbols[:, None]).all(-1)
    else:
        same = symbols[:, :, None] == symbols[:, None]
    before = torch.zeros_like(same)
    before[:, :, 1:] = same[:, :, :-1]
    return before.tril(-1)
