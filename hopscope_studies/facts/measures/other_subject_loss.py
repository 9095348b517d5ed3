"""Loss in sentences that name another subject (ours), which does not change while a model hallucinates."""

from __future__ import annotations

import math

import torch

from hopscope.measures.base import Need, Observation
from hopscope_studies.facts.tasks.factual_recall import FactualRecall

RANGE = (0.0, math.inf)
NEEDS = (Need("factual_recall", lambda task, _: isinstance(task, FactualRecall)),)


@torch.no_grad()
def other_subject_loss(seen: Observation) -> dict[str, float]:
    """The loss in nats of the right answers if each sentence has the subject of the previous one in the batch."""
    task, draw = seen.task, seen.batch.draw
    inputs = task.inputs(dict(draw, subject=draw["subject"].roll(1, 0)))
    outputs = seen.model(inputs, at=task.query_positions, replace=seen.replace)
    return {"answer": float(task.loss(outputs, seen.batch.targets))}
