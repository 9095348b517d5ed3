"""Accuracy on a part of the answer (ours, beside part_loss): the right relation, or the right place in its block."""

from __future__ import annotations

from hopscope.measures.base import Need, Observation
from hopscope.tasks.base import NOT_ASKED, TokenTask

RANGE = (0.0, 1.0)
NEEDS = (
    Need("a task whose answers have parts", lambda task, _: isinstance(task, TokenTask) and bool(task.answer_parts)),
)


def part_accuracy(seen: Observation) -> dict[str, float]:
    """Share (0–1) of answers that are right in a part, for each of `task.answer_parts`."""
    task, targets = seen.task, seen.batch.targets
    assert isinstance(task, TokenTask)
    asked = targets != NOT_ASKED
    right, named = targets[asked], task.logits(seen.outputs).argmax(-1)[asked]
    parts = {name: part.to(right.device) for name, part in task.answer_parts.items()}
    return {name: float((part[named] == part[right]).float().mean()) for name, part in parts.items()}
