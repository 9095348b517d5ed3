"""What a curriculum decides: whether every hop is asked or only the last, and the difficulty of each batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class Curriculum:
    """A way of posing the same task in training; evaluation always poses the hardest form."""

    #: True if the targets hold every successor of a query, False if only the last one (paper, section 7).
    asks_every_hop: bool
    #: True if batches differ in difficulty; they are then fresh data, never rows of a finite set.
    changes_difficulty = False
    #: False if a change comes at the same steps whatever the seed; runs can then be stacked (`training.stack`).
    draws_difficulty = True

    def difficulty(self, offered: Sequence[int], progress: float, generator: torch.Generator) -> int:
        """Number of hops of the batch at `progress`, from 0 at the first step to 1 after the last.

        `offered` are the numbers of hops to choose from, in rising order; its last is the task's own difficulty, which
        every batch has unless a curriculum says otherwise.
        """
        return offered[-1]
