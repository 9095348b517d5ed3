"""What holds the first hop back? Interventions on the plateau of Musat's figure 6 (ICLR 2025, section 9.2).

The experiment `plateau` shows that a head start for the join ends the wait. Here each part of the story is given,
taken away or frozen by itself: clamps hold paths at their ideal or off, weights stay as they were drawn, position codes
are swapped, and there are fewer chains or hops. D = 3, deepest facts first, 5 layers of one head, no MLP, 3 seeds.
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
from hopscope.studies.plateau.course import endings

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 480, "paper": 1_500_000}
CLAIMS = (
    "whole_facts_suffice",
    "without_a_look_up_the_join_goes",
    "a_frozen_join_is_not_enough",
    "the_other_duty_holds_it_back",
    "the_join_may_form_elsewhere",
    "a_second_head_does_not_help",
    "no_position_code_does_it",
    "fewer_chains_do_not_help",
    "one_hop_waits_too",
    "order_alone_moves_the_first_hop",
    "released_it_falls_apart",
)
SEEDS = {"quick": 1, "cpu": 3, "paper": 8}

HOPS = (1, 2, 3)
#: Layer 0's queries see themselves and other queries alone: whatever else they see is taken away.
BLIND = ";".join(
    f"L0H0 query->{role}[{k}]{chain} off@0" for k in HOPS for role in ("key", "value") for chain in ("", " (other)")
)
#: No later layer's query sees a key of step 2, which holds x1 as the value of step 1 does.
DETOUR = ";".join(f"L{layer}H0 query->key[2]{chain} off@0" for layer in range(1, 5) for chain in ("", " (other)"))
POINTERS = "blocks.0.attn.positions.beta,blocks.0.attn.?_QKV"
WEAK, STRONG, NONE = ({"model": bias(start)} for start in (1, 4, 0))
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
    "no prior, no detour": combined(NONE, {"training": {"clamps": DETOUR}}),
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
    "no prior, nearest first, no detour": combined(
        NONE, {"task": {"order": "nearest_first"}, "training": {"clamps": DETOUR}}
    ),
    "no prior, 2 hops": combined(NONE, {"task": {"n_hops": 2}}),
    "prior of 2, 5 hops": {"task": {"n_hops": 5}, "model": {"n_layers": 6, **bias(2)}},
    "one code per fact": {"task": {"position_code": "pair"}},
    "rotary positions": {"model": {"positions": "rotary"}},
    "learnt positions": {"model": {"positions": "learned"}},
    "released at 200": combined(NONE, {"training": RELEASED}),
}


def runs(scale: str) -> Iterator[Config]:
    """Every condition, over seeds; "no prior", "weak prior" and "strong prior" are runs of `plateau`."""
    return cells(CAUSES, range(SEEDS[scale]), scale)


def table(runs: list[Run], scale: str) -> DataFrame:
    """How each run began and ended; the released runs whole."""
    return conditions_of(runs, CAUSES, scale, whole=("released at 200",))


def figure(table: DataFrame) -> Figure:
    """When each hop was learnt, and what became of the join, by condition."""
    return conditions_figure(table, CAUSES)


def claims(table: DataFrame) -> Iterator[Claim]:
    """To come."""
    yield from ()
