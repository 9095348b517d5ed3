"""Loss of a part of the answer (Nichani, Lee & Bietti, 2024): relation-only and subject-only loss in factual recall."""

from __future__ import annotations

import math

import torch

from hopscope.measures.base import Observation
from hopscope.tasks.base import NOT_ASKED, TokenTask

RANGE = (0.0, math.inf)


def part_loss(seen: Observation) -> dict[str, float]:
    """Losses in nats: `whole`, the task's loss, and for each of `task.answer_parts` −ln of that part's probability.

    The probability of a part is that of all answers which share it with the right one. In factual recall the
    relation-only loss is that of the block of answers, the subject-only loss that of the place within it. A task
    without parts has `whole` alone.
    """
    task, targets = seen.task, seen.batch.targets
    found = {"whole": float(task.loss(seen.outputs, targets))}
    if isinstance(task, TokenTask) and task.answer_parts:
        log_p = task.logits(seen.outputs).log_softmax(-1)
        asked = targets != NOT_ASKED
        for name, part in task.answer_parts.items():
            part = part.to(log_p.device)
            shares = part == part[targets.clamp(min=0)][..., None]  # batch query hop output
            log_part = log_p.masked_fill(~shares, -torch.inf).logsumexp(-1).clamp(max=0)  # rounding may pass 0
            found[name] = float(-log_part[asked].mean())
    return found
