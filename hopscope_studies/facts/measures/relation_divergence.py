"""Divergence from p(a | r) (after Nichani, Lee & Bietti, 2024, section 6): 0 if only the relation is used."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from hopscope.measures.base import Need, Observation
from hopscope_studies.facts.tasks.factual_recall import FactualRecall

RANGE = (0.0, math.inf)
NEEDS = (Need("factual_recall", lambda task, _: isinstance(task, FactualRecall)),)


def relation_divergence(seen: Observation) -> dict[str, float]:
    """Mean KL(p(a | r) ‖ model) in nats, where p(a | r) is even over all subjects."""
    task = seen.task
    assert isinstance(task, FactualRecall)
    log_p = task.logits(seen.outputs).double().log_softmax(-1)[:, 0, 0]
    expected = given_relation(task).to(log_p.device)[seen.batch.draw["relation"][:, 0]]
    divergence = (torch.special.xlogy(expected, expected) - expected * log_p).sum(-1).mean()
    return {"answer": float(divergence.clamp(min=0))}  # rounding may pass 0


def given_relation(task: FactualRecall) -> Float[Tensor, "relation answer"]:
    """p(a | r) over all subjects."""
    return torch.nn.functional.one_hot(task.known, task.d_output).double().mean(0)
