"""Ways to give a model the token before, at equal cost: the wait of Musat's figure 6 (ICLR 2025, section 9.2), ended.

Which is least, and which leaves the paper's architecture (section 7.1) as it is? A bias by distance and KV shifting
attention (Xu et al., 2024) change it; initial weights that turn the position code, a clamp that is released, and more
sequences do not. D = 3, deepest facts first, 5 layers of one head, no MLP, 3 seeds, 400 steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.judging import Claim, judge
from hopscope.runs.run import Run
from hopscope.studies.plateau.cells import Changes, bias, cells, whole
from hopscope.studies.plateau.conditions import conditions_figure, conditions_of, learns, of, waits

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 400, "paper": 800_000}
CLAIMS = ()
SEEDS = {"quick": 1, "cpu": 3, "paper": 8}

PRIORS: dict[str, Changes] = {
    "none": {},
    "biased start, 2": {"model": bias(2)},
    "biased start, 4": {"model": bias(4)},
    "kv shift": {"model": {"attention": "kv_shift"}},
    "initial weights, 1": {"model": {"look_back": 1.0}},
    "initial weights, 2": {"model": {"look_back": 2.0}},
    "initial weights, 20": {"model": {"look_back": 20.0}},
    "code of the token before": {"task": {"position_code": "token_and_before"}},
    "clamp until 200": {"training": {"clamps": whole(3, "0-200"), "stop_below": None}},
    "twice the sequences": {"training": {"batch": 256}},
    "learnt positions": {"model": {"positions": "learned"}},
}


def runs(scale: str) -> Iterator[Config]:
    """Every prior, over seeds; the biased starts are runs of `plateau`."""
    return cells(PRIORS, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """How each run began and ended."""
    return conditions_of(runs, PRIORS, scale)


def figure(table: DataFrame) -> Figure:
    """When each hop was learnt, and what became of the join, by prior."""
    return conditions_figure(table, PRIORS)


def claims(table: DataFrame) -> Iterator[Claim]:
    """To come."""
    yield from ()
