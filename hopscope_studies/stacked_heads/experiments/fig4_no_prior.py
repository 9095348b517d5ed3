"""Layers against hops as the paper trains them, without a prior (Musat, ICLR 2025, figure 4, sections 7.1 and 7.2).

`fig4` has the paper's whole figure, which takes a GPU, and at the scales for two cores it has a prior. These are the
paper's own presets (`figure_4`, `figure_4_no_curriculum`) at 2, 3, 4 and 6 layers, one seed each, nearest facts first.
Scale `cpu` has 2 layers and batches of 128 instead of 512. The claims are those of `fig4`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope_studies.stacked_heads.experiments import fig4
from hopscope_studies.stacked_heads.experiments.fig4 import claims as claims, figure as figure, table as table

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "paper": 50_000}
#: Layers, and sequences per step.
SIZES = {"cpu": ((2,), 128), "paper": ((2, 3, 4, 6), 512)}


def runs(scale: str) -> Iterator[Config]:
    """Runs with curriculum and without, the deepest models first."""
    if scale == "quick":
        yield from fig4.runs(scale)
        return
    layers, batch = SIZES[scale]
    for n_layers, name in product(reversed(layers), ("figure_4", "figure_4_no_curriculum")):
        config = recipe(name).config(batch=batch, dtype="bfloat16")
        yield Config(config.task, config.model.but(n_layers=n_layers), config.training)
