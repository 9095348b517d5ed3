"""Head scores on repeated random tokens (Olsson et al., 2022; Song et al., 2024; Ji-An et al., 2024).

A sequence is a start token, 50 random tokens and the same 50 again. Tokens of the second copy can only be predicted
from the first. The induction score is the attention from the second copy to the token after the earlier occurrence, the
duplicate-token score that to the earlier occurrence itself. Scores are means, 0–1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope.core.settings import BadInput
from hopscope.language.lens.attention import Edit, Lens

SEQUENCES, LENGTH = 8, 50
#: First tokens of the second copy whose loss is not counted, because they show the model that it is a repetition (ours;
#: Song et al. leave out four).
WARMING = 10
LAGS = range(-8, 9)


def repeated_tokens(lens: Lens, seed: int, n: int = SEQUENCES, length: int = LENGTH) -> Tensor:
    """n sequences [start, random tokens, the same tokens], without special tokens but the first; (batch, position).

    Raises BadInput if the tokenizer has no start token.
    """
    tokenizer = lens.tokenizer
    start = next(
        (t for t in (tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id) if t is not None), None
    )
    if start is None:
        raise BadInput(f"{lens.name} has no start token, which a sequence of repeated tokens needs")
    special = set(tokenizer.all_special_ids)
    plain = torch.tensor([t for t in range(len(tokenizer)) if t not in special])
    generator = torch.Generator().manual_seed(seed)
    drawn = plain[torch.randint(len(plain), (n, length), generator=generator)]
    return torch.cat([torch.full((n, 1), start), drawn, drawn], 1)


class LagCurves(Edit):
    """Keeps mean attention by lag: from a token of the second copy to its first occurrence plus lag (arXiv:2405.14992).

    Lag 1 is induction, lag 0 the duplicate token. The mean is over tokens for which the position at this lag lies
    between the start token and the token itself.

    Args:
        length: tokens per copy.
        order: for each token of the second copy, the position in the first copy (from 0) that lags are counted from;
            by default that of its first occurrence. Another order is a control.
    """

    def __init__(self, length: int = LENGTH, order: Tensor | None = None):
        self.length = length
        self.places = 1 + (torch.arange(length) if order is None else order)
        self.curves: list[Tensor] = []  # head lag, per layer
        self.previous: list[Tensor] = []  # head, per layer

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        self.curves.append(torch.stack([self.mean_at(pattern, lag) for lag in LAGS], -1))
        self.previous.append(pattern.diagonal(-1, -2, -1).mean((0, 2)))
        return pattern

    def mean_at(self, pattern: Tensor, lag: int) -> Tensor:
        """Mean attention of each head to the position at a lag."""
        rows = torch.arange(self.length + 1, 2 * self.length + 1)
        columns = self.places + lag
        inside = (columns >= 1) & (columns < rows)
        return pattern[:, :, rows[inside], columns[inside]].mean((0, 2))


def loss_on_repeat(lens: Lens, tokens: Tensor, edit: Edit | None = None, length: int = LENGTH) -> float:
    """Mean cross-entropy (nats) of the tokens of the second copy, without the first `WARMING`."""
    logits = lens.run(lens.embed(tokens), edit, all_positions=True)
    first = length + WARMING  # predicts the first token that counts
    return float(torch.nn.functional.cross_entropy(logits[:, first:-1].flatten(0, 1), tokens[:, first + 1 :].flatten()))


def head_scores(lens: Lens, tokens: Tensor, length: int = LENGTH) -> tuple[dict[str, Tensor], float]:
    """Scores by name, and the loss on the repeated tokens (nats).

    `induction`, `previous_token` and `duplicate_token` are layer head, 0–1; `lag` is layer head lag.
    """
    seen = LagCurves(length)
    with torch.no_grad():
        loss = loss_on_repeat(lens, tokens, seen, length)
    lag = torch.stack(seen.curves)  # layer head lag
    zero = LAGS.index(0)
    return {
        "induction": lag[..., zero + 1],
        "duplicate_token": lag[..., zero],
        "previous_token": torch.stack(seen.previous),
        "lag": lag,
    }, loss
