"""The circuits of Transformers A, B and C as the paper trains them, without a prior (Musat, ICLR 2025, figure 5).

`fig5` has the paper's sizes with a prior, with which all its models solve three hops. This is the preset
`transformer_abc` as written (section 8.1: 24,000 steps), nearest facts first, three seeds. Scale `cpu` has one model of
4 layers for 800 steps. The claims are those of `fig5`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope_studies.stacked_heads.experiments import fig5
from hopscope_studies.stacked_heads.experiments.fig5 import claims as claims, figure as figure, table as table

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "paper": 40_000}


def runs(scale: str) -> Iterator[Config]:
    """The preset over three seeds; at `cpu` one smaller model."""
    if scale == "cpu":
        small = recipe("transformer_abc").config(steps=800, checkpoints="800")
        yield Config(small.task, small.model.but(n_layers=4), small.training)
        return
    yield from fig5.runs(scale)
