"""Global association: the probability of the answer that needs no context (Chen, Bruna and Bietti, 2024)."""

from __future__ import annotations

from hopscope.measures.base import Observation, symbols
from hopscope_studies.noisy_bigram.measures.base_answers import answers

RANGE = (0.0, 1.0)
NEEDS = (symbols,)


def global_association(seen: Observation) -> dict[str, float]:
    """Mean probability (0–1) of the likeliest answer regardless of the context: noise, or the commonest target."""
    return {"noise": float(answers(seen)[1].exp().mean())}
