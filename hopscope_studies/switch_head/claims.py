"""The claims of `switch_head`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound, factor

ALIKE = 0.02  # losses within this many nats count as equal (ours; the paper's perplexities agree to a percent or two)
MANY_LEFT = 0.5  # loss in nats above which several places are unread (ours)


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims on counts, the construction, places and induction, and a control."""
    ends = table[table.kind == "end"]
    places, induction = ends[ends.part == "places"], ends[ends.part == "induction"]
    yield counts_claim(places)
    yield by_hand_claim(table[table.kind == "by hand"])
    yield from maps_claims(places)
    yield from width_claims(places)
    yield from choice_claims(places)
    yield from induction_claims(induction)
    yield Evidence(ends, "control").claim(
        "untrained_models_guess",
        "Control: before training a model is right about as often as a guess.",
        ends.start_accuracy * ends.guess.map(math.exp),
        "accuracy at step 0, in times a guess's",
        below=3,
    )


def of(ends: DataFrame, model: str) -> DataFrame:
    """The rows of one kind of model."""
    return ends[ends.model == model]


def paired(ends: DataFrame, one: str, other: str, column: str = "loss") -> Series:
    """The differences between two kinds of model in one column, seed by seed."""
    return (of(ends, one).set_index("seed")[column] - of(ends, other).set_index("seed")[column]).dropna()


def counts_claim(ends: DataFrame) -> Claim:
    """Judge whether the compared models have equally many weights."""
    experts, many, wide = of(ends, "experts"), of(ends, "many maps"), of(ends, "wide maps")
    most, apart = of(ends, "wide experts"), of(ends, "widest maps")
    equal = [*(experts.weights - many.weights.mean()), *(experts.weights - wide.weights.mean())]
    equal += [*(most.weights - apart.weights.mean())]
    return Evidence(ends, "ours", source="exact").claim(
        "counts_are_matched",
        "Models with experts and the dense models compared with them have equally many weights in attention, apart "
        "from biases.",
        equal,
        "difference in weights",
        equals=0,
        also=[bound("maps of experts in those of many maps", many.maps.mean() / experts.maps.mean(), at_least=2)],
    )


def by_hand_claim(rows: DataFrame) -> Claim:
    """Judge whether one map can serve several places."""
    return Evidence(rows, "ours", source="exact").claim(
        "one_map_can_serve_several_places",
        "With hand-set weights a single attention map with E experts reads E different earlier tokens, but not if "
        "every gate is set to its mean.",
        rows.accuracy,
        "accuracy",
        equals=1,
        also=[bound("accuracy with gates at their means", rows.held_accuracy, below=0.9)],
    )


def maps_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims that compare experts, at equal weights, with as many maps and with many maps."""
    experts = of(ends, "experts")
    yield Evidence(experts, "baselines matched in parameters", among=ends).claim(
        "experts_beat_as_many_maps",
        "On the task of naming several earlier tokens, heads with experts reach a lower loss than wider dense heads "
        "with as many attention maps and weights.",
        paired(ends, "wide maps", "experts"),
        "nats saved",
        above=0,
    )
    yield Evidence(experts, "abstract", among=ends).claim(
        "a_quarter_of_the_maps_is_enough",
        "On the task of naming several earlier tokens, heads with experts, with a quarter of the attention maps and as "
        "many weights, reach the loss of dense attention.",
        paired(ends, "experts", "many maps"),
        "nats lost",
        below=ALIKE,
    )


def width_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims on wider experts: the maps that they save, and whether their weights alone explain it."""
    wide, widest = of(ends, "wide experts"), of(ends, "widest maps")
    yield Evidence(wide, "abstract", among=ends).claim(
        "wide_experts_read_every_place",
        "With a quarter of the attention maps and wider experts, several earlier tokens are named as well as with a "
        "map for each of them.",
        paired(ends, "wide experts", "many maps"),
        "nats lost",
        below=ALIKE,
    )
    yield Evidence(widest, "control", among=ends).claim(
        "weights_alone_do_not",
        "Control: dense heads with as many attention maps and weights as heads with wider experts do not learn to name "
        "all earlier tokens asked for.",
        widest.loss,
        "final loss",
        above=MANY_LEFT,
    )


def choice_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims on what the choice of experts depends on, and whether it matters."""
    wide = of(ends, "wide experts")
    yield Evidence(wide, "control", among=ends).claim(
        "choosing_does_it",
        "Naming several earlier tokens with one attention map depends on the choice of experts: if every gate is set "
        "to its mean, accuracy falls.",
        wide.held_accuracy,
        "accuracy with gates at their means",
        below=0.6,
        also=[bound("accuracy as learnt", wide.accuracy, above=0.9)],
    )
    for name, whose in (("value", "source"), ("output", "destination")):
        there, before = wide[f"{name}s_by_place"], wide[f"start_{name}s_by_place"]
        floors = wide[f"{name}s_by_place_floor"]
        yield Evidence(wide, "analysis", among=ends).claim(
            f"{name}_experts_specialise_in_places",
            f"{name.capitalize()} experts specialise in positions: which gate is largest tells more about the {whose} "
            "position than before training, and more than with positions shuffled.",
            there - before,
            "gain in information over the untrained, in shares of ln E,",
            above=0.1,
            also=[bound("information over the floor", there - floors, above=0)],
        )


def induction_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims on whether experts learn induction as well and as soon, with an induction head."""
    experts, many = of(ends, "experts"), of(ends, "many maps")
    yield Evidence(experts, "abstract", among=ends).claim(
        "as_good_on_induction",
        "On induction, heads with experts, with a quarter of the attention maps, reach the loss of dense attention.",
        paired(ends, "experts", "many maps"),
        "nats lost",
        below=ALIKE,
    )
    yield Evidence(experts, "abstract", among=ends).claim(
        "as_soon_on_induction",
        "Heads with experts learn induction in as many steps as dense attention of as many weights.",
        experts.learnt.fillna(math.inf).median() / many.learnt.median() if len(experts) else math.nan,
        "ratio of the median steps",
        within=factor(1, 1.25),
    )
    yield Evidence(experts, "analysis (one is shown)", among=ends).claim(
        "an_induction_head_forms",
        "In models that learn induction, a head with experts becomes an induction head.",
        experts.induction_score,
        "greatest induction score of a head",
        above=0.5,
    )
