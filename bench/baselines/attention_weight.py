"""Paths by mean attention: what reading attention maps amounts to. It says who looks, not who is needed."""

from __future__ import annotations

from bench.baselines.base import Clock, Proposal
from bench.metrics import Yardstick


def attention_weight(lab: Yardstick, seed: int = 0) -> list[Proposal]:
    """Paths by what the attending positions give to their targets on average, 0–1."""
    clock, evaluator = Clock(lab), lab.evaluator
    _ = evaluator.__dict__.pop("strengths", None), evaluator.__dict__.pop("patterns", None)  # to count what they cost
    return [Proposal("attention weight", dict(evaluator.strengths), cost=clock.cost())]
