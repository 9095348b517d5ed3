"""How the number of interleaved chains matters (beyond Musat, whose N is 4 throughout; problem of section 6).

More chains make guessing worse and sequences longer, yet change no minimum depth (docs/theory.md). The experiment
trains the packaged run's model by its recipe with N = 2, 4 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.settings import by_setting
from hopscope.experiments.curves import endings_of
from hopscope.experiments.judging import Claim
from hopscope.experiments.variants import variants
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.one_setting import columns, grows_with, somebody_solves
from hopscope_studies.stacked_heads.telling import SENTENCES

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 330, "paper": 15_000}

CHAINS = (2, 4, 8)
SAID = SENTENCES["chains"]


def runs(scale: str) -> Iterator[Config]:
    """Each number of chains, over seeds; those of four are `packaged_seeds`."""
    for n_chains in CHAINS[:2] if scale == "quick" else CHAINS:
        yield from variants(scale, task={"n_chains": n_chains})


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop, as made by `endings_of`, with N."""
    return endings_of(runs, **columns("N"))


def figure(table: DataFrame) -> Figure:
    """How hops ended, and when they were learnt, by the number of chains."""
    return by_setting(table, "N", "N, chains")


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether every number of chains is learnt, and whether more chains take longer.

    A guess that follows no chain has the loss 1 − 1/N. Solved is a fifteenth of that, which at N = 4 is the usual 0.05.
    """
    relative = table.assign(solved=table.loss < (1 - 1 / table.N) / 15)
    level = "a fifteenth of the guess 1 − 1/N"
    yield somebody_solves(relative, "N", SAID["every_setting_can"], level)
    yield grows_with(table, "N", "later_with_more_chains", SAID["later_with_more_chains"])
