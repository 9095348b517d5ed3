"""One head per layer or several of the same width together (beyond Musat; sections 7.1 and 8.1 use 8 and 1).

The paper's figure 4 has eight heads per layer, and its circuits have one. Does this matter? The experiment trains the
packaged run's model (4 layers, D = 2) with 1, 2, 4 and 8 heads that share d_model. In theory the number of heads does
not change the minimum depth here: nearest first under a causal mask, x_k needs ⌈log2(2k+1)⌉ layers with one head or
many (docs/theory.md).
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
from hopscope_studies.stacked_heads.one_setting import NO_CHAIN, columns, grows_with, somebody_solves
from hopscope_studies.stacked_heads.telling import SENTENCES

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 200, "paper": 20_000}

HEADS = (1, 2, 4, 8)
SAID = SENTENCES["heads_per_layer"]


def runs(scale: str) -> Iterator[Config]:
    """Each number of heads, over seeds; those of one head are `packaged_seeds`."""
    for heads in HEADS[:2] if scale == "quick" else HEADS:
        yield from variants(scale, model={"n_heads": heads})


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop, as made by `endings_of`, with heads."""
    return endings_of(runs, **columns("heads"))


def figure(table: DataFrame) -> Figure:
    """How hops ended, and when they were learnt, by heads."""
    return by_setting(table, "heads", "heads per layer (d_model the same)", NO_CHAIN)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on whether every number of heads can learn, and whether more heads learn sooner."""
    yield somebody_solves(table, "heads", SAID["every_setting_can"])
    yield grows_with(table, "heads", "sooner_with_more_heads", SAID["sooner_with_more_heads"], -1)
