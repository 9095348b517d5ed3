"""What delays the first hop? Interventions on the plateau of Musat's figure 6 (ICLR 2025, section 9.2).

The experiment `plateau` shows that a strong join at the start ends the wait. Here each possible cause is provided,
removed or frozen by itself: clamps hold paths at their ideal or off, weights stay at their initial values, position
codes are changed, and there are fewer chains or hops. Models have 5 layers of one head and no MLP, for D = 3 and
deepest facts first, with 5 seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Unpack

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.experiments.judging import Claim, Limit
from hopscope.runs.run import Run
from hopscope_studies.plateau.cells import Changes, bias, cells, combined, taken, whole
from hopscope_studies.plateau.conditions import SENTENCES, Conditions, conditions_of, figure as figure
from hopscope_studies.plateau.course import endings, hop_times
from hopscope_studies.plateau.law import theory_of
from hopscope_studies.plateau.theory.fit import STRIDE
from hopscope_studies.plateau.theory.two_factor import Places

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 720, "paper": 1_500_000}
SEEDS = {"quick": 1, "cpu": 5, "paper": 8}

HOPS = (1, 2, 3)
#: Layer 0's queries see only queries; all their other attention is removed.
BLIND = ";".join(
    f"L0H0 query->{role}[{k}]{chain} off@0" for k in HOPS for role in ("key", "value") for chain in ("", " (other)")
)
#: No query of a later layer sees a key of hop 2, which holds x1 just as the value of hop 1 does.
DETOUR = ";".join(f"L{layer}H0 query->key[2]{chain} off@0" for layer in range(1, 5) for chain in ("", " (other)"))
POINTERS = "blocks.0.attn.positions.beta,blocks.0.attn.?_QKV"
WEAK, STRONG = ({"model": bias(start)} for start in (1, 4))
NONE: Changes = {"model": {"positions": "relative"}}
RELEASED = {"clamps": whole(3, "0-200"), "steps": 1000, "stop_below": None, "checkpoints": "200"}

#: Weak is b = 1, below the threshold; strong is b = 4.
CAUSES: dict[str, Changes] = {
    "no prior": NONE,
    "facts whole": combined(NONE, {"training": {"clamps": whole(3)}}),
    "weak prior": WEAK,
    "weak prior, frozen": combined(WEAK, {"training": {"frozen": POINTERS}}),
    "weak prior, queries blind in layer 0": combined(WEAK, {"training": {"clamps": BLIND}}),
    "no prior, queries blind in layer 0": combined(NONE, {"training": {"clamps": BLIND}}),
    "weak prior, no detour": combined(WEAK, {"training": {"clamps": DETOUR}}),
    "strong prior, frozen": combined(STRONG, {"training": {"frozen": POINTERS}}),
    "weak prior, a second head": combined(WEAK, {"model": {"n_heads": 2, "positions": "relative(start='L0H0 1:1')"}}),
    "strong prior": STRONG,
    "strong prior, facts not in layer 0": combined(
        STRONG, {"training": {"clamps": taken([0], [(f"value[{k}]", f"key[{k}]") for k in HOPS])}}
    ),
    "strong prior, later layers frozen": combined(STRONG, {"training": {"frozen": "blocks.[1234].*"}}),
    "no prior, 2 chains": combined(NONE, {"task": {"n_chains": 2}}),
    "weak prior, 2 chains": combined(WEAK, {"task": {"n_chains": 2}}),
    "no prior, 1 hop": combined(NONE, {"task": {"n_hops": 1}}),
    "no prior, nearest first": combined(NONE, {"task": {"order": "nearest_first"}}),
    "no prior, 2 hops": combined(NONE, {"task": {"n_hops": 2}}),
    "prior of 2, 5 hops": {"task": {"n_hops": 5}, "model": {"n_layers": 6, **bias(2)}},
    "one code per fact": {"task": {"position_code": "pair"}},
    "rotary positions": {"model": {"positions": "rotary"}},
    "learnt positions": {"model": {"positions": "learned"}},
    "released at 200": combined(NONE, {"training": RELEASED}),
}

CLAMPED = 200  # steps until the clamp is released
#: The conditions that the theory is fitted to, with their starts.
STARTS = {"no prior": 0.0, "weak prior": 1.0, "strong prior": 4.0}
#: Predictions: the start, and the parameters changed in the model. Blind queries cost nothing; frozen joins do not
#: move.
FORETOLD: dict[str, tuple[float, dict[str, Any]]] = {
    "weak prior, frozen": (1, {"join": 0.0}),
    "strong prior, frozen": (4, {"join": 0.0}),
    "weak prior, queries blind in layer 0": (1, {"cost": 0.0}),
    "no prior, queries blind in layer 0": (0, {"cost": 0.0}),
    "no prior, 1 hop": (0, {"places": Places.of(4, 1, "deepest_first")}),
    "no prior, 2 hops": (0, {"places": Places.of(4, 2, "deepest_first")}),
    "prior of 2, 5 hops": (2, {"places": Places.of(4, 5, "deepest_first")}),
    "no prior, nearest first": (0, {"places": Places.of(4, 3, "nearest_first")}),
    "no prior, 2 chains": (0, {"places": Places.of(2, 3, "deepest_first")}),
    "weak prior, 2 chains": (1, {"places": Places.of(2, 3, "deepest_first")}),
}


def runs(scale: str) -> Iterator[Config]:
    """Every condition, over seeds; "weak prior" and "strong prior" are runs of `plateau`."""
    return cells(CAUSES, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """The first and last step of each run; every step of released runs and of those that the theory is fitted to."""
    return conditions_of(runs, CAUSES, scale, whole=("released at 200", *STARTS))


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about one factor at a time, codes and sizes, the released clamp, and the model's predictions."""
    told = Conditions(table, SENTENCES["plateau_causes"], {"clamped": CLAMPED})
    yield from factors(told)
    yield from duties(told)
    yield from sizes(told)
    yield from released(told)
    yield foretold(told)


def factors(told: Conditions) -> Iterator[Claim]:
    """Claims about the join and the look-up, each provided, removed or frozen."""
    yield told.waits("without_a_prior_it_waits", "no prior")
    yield told.learns("whole_facts_suffice", "facts whole")
    yield left(told, "without_a_look_up_the_join_goes", "strong prior, later layers frozen", below=0.5)
    yield told.waits("a_weak_join_is_not_enough_though_it_stays", "weak prior, frozen")
    yield told.learns("a_strong_join_is_enough_though_it_stays", "strong prior, frozen")


def duties(told: Conditions) -> Iterator[Claim]:
    """Claims about the head's other role, what else queries read, and whether other heads can take over."""
    yield told.learns("the_other_duty_holds_it_back", "weak prior, queries blind in layer 0", hop="x1")
    yield told.waits("the_other_duty_is_not_all", "no prior, queries blind in layer 0")
    yield told.waits("a_second_head_does_not_help", "weak prior, a second head")
    yield left(told, "without_the_detour_the_join_grows", "weak prior, no detour", above=1)
    later = endings(told.of("strong prior, facts not in layer 0"))
    yield told.held(
        "the_join_may_form_later",
        later[later.hop == "x1"].joined_later,
        "join attention of a later layer at the end",
        later,
        above=0.5,
    )


def left(told: Conditions, id: str, condition: str, **limit: Unpack[Limit]) -> Claim:
    """A claim about the join's attention at the end over that at the start."""
    ends = endings(told.of(condition))
    ends = ends[ends.hop == "x1"]
    words = "join attention at the end over that at the start"
    return told.held(id, ends.joined / ends.joined_start, words, ends, **limit)


def sizes(told: Conditions) -> Iterator[Claim]:
    """Claims about position codes, and about numbers of chains and of hops."""
    yield told.waits(
        "codes_in_the_inputs_or_turned_wait", "one code per fact", "rotary positions", section="beyond (6)"
    )
    yield told.learns("learnt_positions_need_no_prior", "learnt positions", hop="x1", section="beyond (6)")
    yield told.waits("fewer_chains_wait_too", "no prior, 2 chains", "weak prior, 2 chains")
    yield told.learns("one_hop_does_not_wait", "no prior, 1 hop")


def released(told: Conditions) -> Iterator[Claim]:
    """Claims about facts that a clamp joins for the first 200 steps."""
    rows = told.of("released at 200")
    first = rows[rows.hop == "x1"]
    after = first[(first.step > CLAMPED) & (first.step <= 2 * CLAMPED)]
    yield told.held(
        "released_it_falls_apart",
        after.groupby("run").hop_loss.max(),
        "greatest loss of x1 after the release",
        rows,
        above=0.5,
    )
    yield told.held(
        "released_it_forms_again",
        first.sort_values("step").groupby("run").hop_loss.last(),
        "final loss of x1",
        rows,
        below=0.2,
    )


# Theory ------------------------------------------------------------------------------------------------------------


def foretold(told: Conditions) -> Claim:
    """Claims that the model predicts whether x1 is learnt, in conditions to which it was not fitted."""
    fit = told.of(*STARTS)
    theory = theory_of(fit.assign(start=fit.condition.map(STARTS)))
    right: dict[str, bool] = {}
    for name, (start, changed) in FORETOLD.items():
        times = hop_times(told.of(name), "x1")
        if theory is not None and len(times):
            predicted = float(replace(theory.model, **changed).learning_time(start, theory.steps, STRIDE))
            right[name] = math.isfinite(predicted) == math.isfinite(float(times.median()))
    wrong = "; ".join(name.replace(",", " with") for name, met in right.items() if not met) or "none"
    told = replace(told, numbers={"n": len(right), "wrong": wrong})
    id, what, rows = "the_model_foretells_who_learns", "conditions told rightly", told.of(*right)
    return told.held(id, right.values(), what, rows, "beyond", at_least=0.8, of="share of")
