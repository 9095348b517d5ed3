"""Tasks that ask every position for one token: hops are kinds of positions, and one set of logits serves all of them.

The kind of a position determines in which column of the targets its answer is; the others are `NOT_ASKED`.
"""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.tasks.base import NOT_ASKED, Batch, TokenTask


class OneAnswerTask(TokenTask):
    """Outputs are `n_logits` numbers per position, whichever hop is asked there."""

    @property
    def d_output(self) -> int:
        return self.n_logits

    def hop_losses(
        self, outputs: Float[Tensor, "batch query output"], targets: Int[Tensor, "batch query hop"]
    ) -> Float[Tensor, "hop"]:
        return super().hop_losses(outputs.repeat(1, 1, targets.shape[-1]), targets)

    def loss(
        self, outputs: Float[Tensor, "batch query output"], targets: Int[Tensor, "batch query hop"]
    ) -> Float[Tensor, ""]:
        """The mean over all asked positions, whichever hop they ask."""
        asked = targets.amax(-1).flatten()  # NOT_ASKED is negative, so this is the one answer
        total = F.cross_entropy(outputs.float().flatten(0, 1), asked, ignore_index=NOT_ASKED, reduction="sum")
        return total / (asked != NOT_ASKED).sum().clamp(min=1)

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Whether each output is right, for positions that ask the last hop, which the context answers."""
        answers = batch.targets[..., -1]
        return (outputs.argmax(-1) == answers)[answers != NOT_ASKED][:, None]
