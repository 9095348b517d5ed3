"""Ways to give a model a prior for the previous token, which end the wait of Musat's figure 6 (ICLR 2025, section 9.2).

Which is the smallest change, and which leaves the paper's architecture (section 7.1) unchanged? A bias by distance and
KV shifting attention (Xu et al., 2024) change it. Initial weights that rotate the position code, and a clamp that is
released, do not. Models have 5 layers of one head and no MLP, for D = 3 and deepest facts first, with 5 seeds and 400
steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.judging import Claim, factor
from hopscope.experiments.values import power_law
from hopscope.runs.run import Run
from hopscope_studies.plateau.cells import Changes, bias, cells, whole
from hopscope_studies.plateau.conditions import SENTENCES, Conditions, conditions_of, figure as figure
from hopscope_studies.plateau.course import endings

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 550, "paper": 800_000}
SEEDS = {"quick": 1, "cpu": 5, "paper": 8}

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
    "learnt positions": {"model": {"positions": "learned"}},
}


def runs(scale: str) -> Iterator[Config]:
    """Every prior, over seeds; the biased starts are runs of `plateau`."""
    return cells(PRIORS, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """The first and last step of each run."""
    return conditions_of(runs, PRIORS, scale)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about which priors are enough, which are not, and whether it matters how the join is provided."""
    told = Conditions(table, SENTENCES["plateau_priors"])
    yield told.waits("without_a_prior_it_waits", "none")
    yield told.waits("the_code_beside_does_not_help", "code of the token before")
    yield told.learns("biased_start_suffices", "biased start, 4")
    yield told.learns("kv_shift_suffices", "kv shift")
    yield told.learns("initial_weights_suffice", "initial weights, 20")
    yield told.learns("learnt_positions_suffice", "learnt positions", hop="x1")
    yield told.waits("a_little_of_them_is_not_enough", "initial weights, 1")
    yield released(told)
    yield alike(told)


def released(told: Conditions) -> Claim:
    """Claims about a join that is provided and then removed."""
    clamped = told.of("clamp until 200")
    last = clamped[clamped.step == clamped.groupby("run").step.transform("max")]
    return told.held(
        "a_released_clamp_needs_longer", last[last.hop == "x1"].hop_loss, "loss of x1 at the end", last, above=0.5
    )


def alike(told: Conditions) -> Claim:
    """The claim that initial weights follow the power law of the biased starts, at the same initial join."""
    ends = endings(told.table)
    first = ends[ends.hop == "x1"]
    biased = first[first.condition.str.startswith("biased")]
    scale, exponent = power_law(biased.joined_start, biased.learnt)
    weights = first[first.condition.isin(["initial weights, 2", "initial weights, 20"]) & first.learnt.notna()]
    ratios = weights.learnt / (scale * weights.joined_start**exponent)
    id, what = "it_matters_how_much_not_how", "measured step over that of the law"
    told = replace(told, numbers={"scale": scale, "exponent": exponent})
    return told.held(id, ratios, what, weights, within=factor(1, 2), of="median")
