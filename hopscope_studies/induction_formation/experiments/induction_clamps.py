"""What needs to go right for an induction head? Clamps during training (Singh et al., 2024, section 5).

Each part of the circuit is supplied in turn while the rest trains. If the rest then forms at once, it was waiting for
that part. The paper's claim is about the order of learning times, here over 8 seeds. The toy model, a product of three
vectors, is trained in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.long_table import courses_of, namer
from hopscope.experiments.work import Finished, Work
from hopscope.runs.run import Run
from hopscope_studies.induction_formation.cells import CLAMPS, best, cell, cells
from hopscope_studies.induction_formation.clamp_claims import claims as claims
from hopscope_studies.induction_formation.figure import clamps_figure
from hopscope_studies.induction_formation.theory.product import Product

figure = clamps_figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 5, "cpu": 360, "paper": 60_000}
SEEDS = {"quick": 1, "cpu": 8, "paper": 8}


def runs(scale: str) -> Iterator[Config | Work]:
    """Every clamp and the toy model, with every seed."""
    yield from cells(CLAMPS, range(SEEDS[scale]), scale)
    yield from (Product(seed=seed, **({"most": 100} if scale == "quick" else {})) for seed in range(SEEDS[scale]))


def table(finished: list[Run | Finished], scale: str) -> DataFrame:
    """Rows on the course of every run, and on the toy model's steps."""
    return courses_of(finished, namer(CLAMPS, cell, scale), best)
