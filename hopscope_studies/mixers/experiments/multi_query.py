"""Can one layer recall many keys, and in how wide a window of learning rates? (after arXiv:2508.19029)

Okpekpe and Orvieto find that one tuned layer of Mamba learns multi-query recall, in a narrow window of learning rates,
and that one layer of a transformer does not. Here every sequence states sixteen keys with their values and asks for all
of them at its end: retrieval of one hop with sixteen chains. Sixteen pairs are those of zoology's sequences of 256
tokens (arXiv:2312.04927), whose filler tokens are left out here.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.judging import Claim
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.mixers.experiments import mixers
from hopscope_studies.mixers.experiments.mixers import BARE, CONVOLVED, WITHOUT

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 9, "cpu": 700, "paper": 9000}

TASK = Retrieval(n_hops=1, n_chains=16, d_symbol=16, position_base=100.0)
RECALLED = 0.8  # accuracy; a guess among the sixteen values has 0.06

figure = mixers.figure


def runs(scale: str) -> Iterator[Config]:
    """One layer of every mixer at every rate, seed by seed."""
    for one in mixers.runs(scale):
        yield Config(TASK, one.model.but(n_layers=1), one.training.but(batch=32))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run: the columns of `mixers`, and the accuracy on the fresh sequences of the run's report."""
    accuracies = {run.config.identity: report["accuracy"][0] for run in runs if (report := run.report)}
    return mixers.table(runs, scale).assign(accuracy=lambda rows: rows.run.map(accuracies))


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours and were committed before the runs; README.md states what we expected."""
    claim, rates = mixers.teller(table, "multi_query"), mixers.windows(table, table.accuracy >= RECALLED)
    for mixer in CONVOLVED:
        yield claim(mixer, rates[mixer, 1], (mixer,), at_least=1)
    yield claim("narrow", rates[CONVOLVED[0], 1], CONVOLVED[:1], at_most=2, of="median")
    yield claim("bare_delta_rule", rates[BARE[1], 1], BARE[1:], at_most=0)
    cannot = (*WITHOUT, BARE[0])
    highest = table[table.mixer.isin(cannot)].groupby("seed").accuracy.max()
    yield claim("cannot", highest, cannot, "accuracy", below=0.2)
