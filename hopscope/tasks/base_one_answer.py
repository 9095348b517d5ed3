"""Tasks that ask every position for one token: hops are kinds of positions, and one set of logits serves them all.

Which kind a position is of says in which column of the targets its answer stands; all others are `NOT_ASKED`.
"""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from hopscope.tasks.base import NOT_ASKED, Batch, TokenTask


class OneAnswerTask(TokenTask):
    """Outputs are `n_logits` numbers a position, whichever hop it asks."""

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
        """Mean over all positions that are asked, whichever hop they ask."""
        asked = targets.amax(-1).flatten()  # NOT_ASKED is negative, so this is the one answer
        total = F.cross_entropy(outputs.float().flatten(0, 1), asked, ignore_index=NOT_ASKED, reduction="sum")
        return total / (asked != NOT_ASKED).sum().clamp(min=1)

    def correct(self, outputs: Float[Tensor, "batch query output"], batch: Batch) -> Bool[Tensor, "answer hop"]:
        """Of what the last hop asks alone, which is what the context tells."""
        answers = batch.targets[..., -1]
        return (outputs.argmax(-1) == answers)[answers != NOT_ASKED][:, None]
