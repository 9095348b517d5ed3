"""Where a model that joins its facts still waits: traps after the first hop (Musat, ICLR 2025, section 7.2).

Each of three traps is tested with a change that should end it if our idea of its cause is right. With nearest facts
first, x1 is learnt soon and x3 is not. With five hops, MLPs and one head, training stalls after x1, and not with eight
heads. Without implicit curriculum, where only the last hop is asked, joined facts do not help. All runs have b = 4 and
400 steps; 2 seeds at `cpu`, 5 at `long`.
"""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.judging import Claim
from hopscope.runs.run import Run
from hopscope_studies.plateau.cells import Changes, bias, cells, combined, taken, whole
from hopscope_studies.plateau.conditions import SENTENCES, Conditions, conditions_of, figure as figure

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 700, "long": 2400, "paper": 2_000_000}
CELL_SECONDS = 220
SEEDS = {"quick": 1, "cpu": 2, "long": 5, "paper": 8}

STRONG = {"model": bias(4)}
#: No value position can attend to a later step.
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
    """Every trap and every change that may end it, over seeds."""
    return cells(TRAPS, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """The first and last step of each run."""
    return conditions_of(runs, TRAPS, scale)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about each trap, its control, and the change that should end it."""
    told = Conditions(table, SENTENCES["plateau_traps"])
    yield from nearest_first(told)
    yield from last_hop_alone(told)
    yield from five_hops(told)


def nearest_first(told: Conditions) -> Iterator[Claim]:
    """Claims about x3 with nearest facts first: does it wait because the causal mask forbids look-ahead?"""
    yield told.waits("nearest_first_stalls", "nearest first", hop="x3")
    yield told.waits("whole_facts_do_not_free_it", "nearest first, facts whole", hop="x3")
    yield told.learns("sight_of_later_facts_frees_it", "nearest first, no mask", hop="x3")
    yield told.learns("no_mask_does_no_harm", "deepest first, no mask")
    yield told.waits("without_look_ahead_deepest_first_stalls", "deepest first, no look-ahead", hop="x3")


def last_hop_alone(told: Conditions) -> Iterator[Claim]:
    """Claims about training without implicit curriculum: how much must be provided before the rest is learnt?"""
    section = "beyond (7.2)"
    yield told.waits("the_last_hop_alone_waits", "last hop alone", hop="x3", section=section)
    yield told.waits("one_look_up_given_is_not_enough", "last hop alone, 1 given", hop="x3", section=section)
    yield told.learns("two_look_ups_given_are", "last hop alone, 2 given", hop="x3", section=section)


def five_hops(told: Conditions) -> Iterator[Claim]:
    """Claims about D = 5 from b = 4: the effects of MLPs and heads."""
    yield told.waits("five_hops_stall_with_one_head", "5 hops, 1 head", hop="x5")
    yield told.learns("eight_heads_free_them", "5 hops, 8 heads")
    yield told.learns("so_does_no_mlp", "5 hops, 1 head, no MLP")
    yield told.learns("so_do_whole_facts", "5 hops, 1 head, facts whole")
