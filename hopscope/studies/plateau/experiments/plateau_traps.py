"""Where a model that joins its facts still waits: other traps beside the first hop's (Musat, ICLR 2025, section 7.2).

Three are told apart, each with what should free it if its cause is what we think. Nearest facts first, x1 comes soon
and x3 does not. Five hops with MLPs stop after x1 with one head, and not with eight. Without implicit curriculum,
where the last hop alone is asked, whole facts do not help. b = 4 throughout, 2 seeds, 400 steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.judging import Claim, judge
from hopscope.runs.run import Run
from hopscope.studies.plateau.cells import Changes, bias, cells, combined, taken, whole
from hopscope.studies.plateau.conditions import conditions_figure, conditions_of, learns, of, waits

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 700, "paper": 2_000_000}
CLAIMS = ()
SEEDS = {"quick": 1, "cpu": 2, "paper": 8}

STRONG = {"model": bias(4)}
#: No value position looks ahead to the step after its own.
AHEAD = taken(range(5), [("value[1]", "value[2]"), ("value[2]", "value[3]"), ("value[1]", "value[3]")])
NEAREST = combined(STRONG, {"task": {"order": "nearest_first"}})
ALONE = combined(STRONG, {"task": {"curriculum": "none"}, "training": {"clamps": whole(3)}})
FIRST, SECOND = "L1H0 query->value[1] ideal@0", "L2H0 query->value[2] ideal@0"
FIVE = combined(STRONG, {"task": {"n_hops": 5}, "model": {"n_layers": 6, "mlp": True}})

TRAPS: dict[str, Changes] = {
    "nearest first": NEAREST,
    "nearest first, facts whole": combined(NEAREST, {"training": {"clamps": whole(3)}}),
    "nearest first, no mask": combined(NEAREST, {"model": {"causal": False}}),
    "deepest first, no mask": combined(STRONG, {"model": {"causal": False}}),
    "deepest first, no look-ahead": combined(STRONG, {"training": {"clamps": AHEAD}}),
    "last hop alone": ALONE,
    "last hop alone, 1 given": combined(ALONE, {"training": {"clamps": f"{whole(3)};{FIRST}"}}),
    "last hop alone, 2 given": combined(ALONE, {"training": {"clamps": f"{whole(3)};{FIRST};{SECOND}"}}),
    "5 hops, 1 head": FIVE,
    "5 hops, 1 head, facts whole": combined(FIVE, {"training": {"clamps": whole(5)}}),
    "5 hops, 8 heads": combined(FIVE, {"model": {"n_heads": 8}}),
    "5 hops, 1 head, no MLP": combined(FIVE, {"model": {"mlp": False}}),
}


def runs(scale: str) -> Iterator[Config]:
    """Every trap and what may free it, over seeds."""
    return cells(TRAPS, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """How each run began and ended."""
    return conditions_of(runs, TRAPS, scale)


def figure(table: DataFrame) -> Figure:
    """When each hop was learnt, and what became of the join, by condition."""
    return conditions_figure(table, TRAPS)


def claims(table: DataFrame) -> Iterator[Claim]:
    """To come."""
    yield from ()
