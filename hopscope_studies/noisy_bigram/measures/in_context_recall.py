"""In-context recall: the probability of the answer given by the context (Chen, Bruna and Bietti, 2024)."""

from __future__ import annotations

from hopscope.measures.base import Observation, symbols
from hopscope_studies.noisy_bigram.measures.base_answers import answers

RANGE = (0.0, 1.0)
NEEDS = (symbols,)


def in_context_recall(seen: Observation) -> dict[str, float]:
    """Mean probability (0–1) of the answer given by the context, whether or not the sequence continues with it."""
    return {"correct": float(answers(seen)[0].exp().mean())}
