"""In the context or in the weights? Classes, bursts and noise decide (Reddy, 2024, section 2; Chan et al., 2022).

All classes keep their labels, so that an answer can be looked up in the context or known by heart. Three tests show
which of the two a model has learnt: new classes (IC), known classes with other labels (IC2), and known classes that the
context does not show (IW). See the study's README.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.long_table import namer
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope_studies.abrupt_learning.answers import ending
from hopscope_studies.abrupt_learning.cells import TRADE, cell, cells
from hopscope_studies.abrupt_learning.figure import trade_figure
from hopscope_studies.abrupt_learning.trade_claims import claims as claims

figure = trade_figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 240, "paper": 100_000}
SEEDS = {"quick": 1, "cpu": 5, "paper": 6}


def runs(scale: str) -> Iterator[Config]:
    """Every condition, over seeds."""
    return cells(TRADE, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """How each run answers at its end."""
    name_of = namer(TRADE, cell, scale)
    return rows_of(runs, lambda run: ending(run, name_of(run.config))).round({"value": 5})
