"""The margin of recall over association, in nats of log-odds (Chen, Bruna and Bietti, 2024)."""

from __future__ import annotations

import math

from hopscope.measures.base import Observation, symbols
from hopscope_studies.noisy_bigram.measures.base_answers import answers

RANGE = (-math.inf, math.inf)
NEEDS = (symbols,)


def recall_margin(seen: Observation) -> dict[str, float]:
    """Mean of log p(the context's answer) − log p(the answer that needs no context): above 0 the context wins."""
    recalled, associated = answers(seen)
    return {"margin": float((recalled - associated).mean())}
