"""The retrieval score in small models that copy: the needle is a segment's first copy, the answer the second.

Every asked token of the second copy is given. A head hits it if the position that it attends to most, from the token
before, is one of the corresponding positions in the first copy and holds the same token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hopscope.core.seeds import generator
from hopscope.measures.base import Observation
from hopscope.tasks.base import Batch
from hopscope.tasks.repeated_segment import RepeatedSegment


def toy_scores(seen: Observation) -> dict[str, float]:
    """The mean score (0–1) of every head by its short name."""
    return {name: float(score(pattern.argmax(-1), seen.batch).mean()) for name, pattern in seen.patterns()}


def score(top: Tensor, batch: Batch) -> Tensor:
    """The share of the asked tokens that a head hits; shape (batch).

    Args:
        top: the position that it attends to most; shape (batch, query).
        batch: sequences with their draw.
    """
    task, draw, tokens = batch.task, batch.draw, batch.inputs
    assert isinstance(task, RepeatedSegment)
    asked = torch.nn.functional.pad(task.copied(draw), (0, 1))  # whether the token after a position is asked
    first, lengths = draw["starts"][:, :1], draw["lengths"][:, None]
    inside = (top >= first + task.skipped) & (top < first + lengths)
    following = tokens.roll(-1, 1)
    hit = asked & inside & (tokens.gather(1, top) == following)
    return hit.sum(1) / asked.sum(1)


def drawn(task: RepeatedSegment, n: int) -> Batch:
    """Sequences that are not in the training data."""
    return task.sample(n, generator(0, "needles"))
