"""Loss over training with the deepest facts first (Musat, ICLR 2025, figure 6; sections 3.1 and 9; docs/fidelity.md).

Section 3.1 and appendix A list the deepest facts first, section 6 the nearest. `fig6` has Transformer D with the
nearest first. This is the same with the deepest first, as written and without a prior. The claims are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope_studies.stacked_heads.experiments import fig7
from hopscope_studies.stacked_heads.experiments.fig6 import claims as claims, figure as figure, table as table

#: Seconds that each scale takes on two cores; with the prior, at `cpu`, `fig6` has this order, too.
SECONDS = {"quick": 6, "cpu": 300, "paper": 60_000}


def runs(scale: str) -> Iterator[Config]:
    """Three seeds, as in `fig7` for the other order."""
    if scale == "paper":
        yield from (recipe("transformer_d_deepest").config(seed=seed) for seed in range(3))
        return
    for config in fig7.runs(scale):
        yield Config(config.task.but(order="deepest_first"), config.model, config.training)
