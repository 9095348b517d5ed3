"""Recall's margin over association, in nats of log-odds (Chen, Bruna and Bietti, 2024)."""

from __future__ import annotations

import math

from hopscope.measures.base import Observation, symbols
from hopscope_studies.noisy_bigram.measures.base_answers import answers

RANGE = (-math.inf, math.inf)
NEEDS = (symbols,)


def recall_margin(seen: Observation) -> dict[str, float]:
    """Mean of log p(what the context gives) − log p(what needs no context): above 0 the context wins."""
    recalled, associated = answers(seen)
    return {"margin": float((recalled - associated).mean())}
