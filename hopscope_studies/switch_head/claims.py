"""The claims of `switch_head`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, bound, factor, judge

ALIKE = 0.02  # nats within which losses count as equal (ours; the paper's perplexities agree to a percent or two)
MANY_LEFT = 0.5  # nats above which several places are not read (ours)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Counts, the construction, places, induction, control."""
    ends = table[table.kind == "end"]
    places, induction = ends[ends.part == "places"], ends[ends.part == "induction"]
    yield counts_claim(places)
    yield by_hand_claim(table[table.kind == "by hand"])
    yield from maps_claims(places)
    yield from width_claims(places)
    yield from choice_claims(places)
    yield from induction_claims(induction)
    yield judge(
        "untrained_models_guess",
        "Before training a model is right about as often as a guess (control).",
        ends.start_accuracy * ends.guess.map(math.exp),
        "accuracy at step 0, in times a guess's",
        section="control",
        rows=ends,
        below=3,
        source="ours",
    )


def of(ends: DataFrame, model: str) -> DataFrame:
    """The runs of a kind of model."""
    return ends[ends.model == model]


def paired(ends: DataFrame, one: str, other: str, column: str = "loss") -> Series:
    """Seed by seed, by how much one kind's number exceeds another's."""
    return (of(ends, one).set_index("seed")[column] - of(ends, other).set_index("seed")[column]).dropna()


def span(values: Series) -> str:
    """Lowest to highest."""
    return f"{values.min():.2f} to {values.max():.2f}" if len(values) else "unknown"


def counts_claim(ends: DataFrame) -> Claim:
    """What is compared with what."""
    experts, many, wide = of(ends, "experts"), of(ends, "many maps"), of(ends, "wide maps")
    most, apart = of(ends, "wide experts"), of(ends, "widest maps")
    equal = [*(experts.weights - many.weights.mean()), *(experts.weights - wide.weights.mean())]
    equal += [*(most.weights - apart.weights.mean())]
    return judge(
        "counts_are_matched",
        "Models with experts and the dense ones compared with them have equally many weights in attention, biases "
        f"apart ({experts.weights.mean():.0f}, and {most.weights.mean():.0f}).",
        equal,
        "difference in weights",
        section="ours",
        rows=ends,
        equals=0,
        also=[bound("maps of experts in those of many maps", many.maps.mean() / experts.maps.mean(), at_least=2)],
        source="exact",
    )


def by_hand_claim(rows: DataFrame) -> Claim:
    """The construction."""
    return judge(
        "one_map_can_serve_several_places",
        "Weights made by hand tell as many places apart by one map as they have experts; with every gate at its mean "
        f"they do not ({span(rows.held_accuracy)} right).",
        rows.accuracy,
        "accuracy",
        section="ours",
        rows=rows,
        equals=1,
        also=[bound("accuracy with gates at their means", rows.held_accuracy, below=0.9)],
        source="exact",
    )


def maps_claims(ends: DataFrame) -> Iterator[Claim]:
    """With equally many weights: against as many maps, and against many."""
    experts, many, wide = of(ends, "experts"), of(ends, "many maps"), of(ends, "wide maps")
    yield judge(
        "experts_beat_as_many_maps",
        "With as many maps and weights, experts do better than wider dense heads "
        f"({span(experts.loss)} nats against {span(wide.loss)}).",
        paired(ends, "wide maps", "experts"),
        "nats saved",
        section="baselines matched in parameters",
        rows=experts,
        among=ends,
        above=0,
        source="ours",
    )
    yield judge(
        "a_quarter_of_the_maps_is_enough",
        "With a quarter of the maps and as many weights, experts do as well as dense attention "
        f"({span(experts.loss)} nats against {span(many.loss)}).",
        paired(ends, "experts", "many maps"),
        "nats lost",
        section="abstract",
        rows=experts,
        among=ends,
        below=ALIKE,
        source="ours",
    )


def width_claims(ends: DataFrame) -> Iterator[Claim]:
    """With wider experts: what maps are saved, and that it is not their weights."""
    wide, widest = of(ends, "wide experts"), of(ends, "widest maps")
    yield judge(
        "wide_experts_read_every_place",
        "With a quarter of the maps, and experts as wide as the dense heads that match them in maps, all places are "
        f"read as well as with a map for each ({span(wide.loss)} nats).",
        paired(ends, "wide experts", "many maps"),
        "nats lost",
        section="abstract",
        rows=wide,
        among=ends,
        below=ALIKE,
        source="ours",
    )
    yield judge(
        "weights_alone_do_not",
        "Dense heads with as many maps and weights as these experts do not read all places (control).",
        widest.loss,
        "final loss",
        section="control",
        rows=widest,
        among=ends,
        above=MANY_LEFT,
        source="ours",
    )


def choice_claims(ends: DataFrame) -> Iterator[Claim]:
    """What experts are chosen by, and that choosing matters."""
    wide = of(ends, "wide experts")
    yield judge(
        "choosing_does_it",
        "The choice of experts does it: with every gate at its mean, and all else as learnt, accuracy falls (causal "
        f"control; as learnt {span(wide.accuracy)}; with those of values alone at their means "
        f"{span(wide.held_values_accuracy)}, of outputs alone {span(wide.held_outputs_accuracy)}).",
        wide.held_accuracy,
        "accuracy with gates at their means",
        section="control",
        rows=wide,
        among=ends,
        below=0.6,
        also=[bound("accuracy as learnt", wide.accuracy, above=0.9)],
        source="ours",
    )
    for name, whose in (("value", "source"), ("output", "destination")):
        there, before = wide[f"{name}s_by_place"], wide[f"start_{name}s_by_place"]
        floors, of_token = wide[f"{name}s_by_place_floor"], wide[f"{name}s_by_token"]
        yield judge(
            f"{name}_experts_specialise_in_places",
            f"{name.capitalize()} experts specialise in places: which gate is widest tells a {whose}'s place "
            f"({span(there)} of ln E), by more than before training ({span(before)}) and more than shuffled (at most "
            f"{floors.max():.2f}); of its token it tells {span(of_token)}.",
            there - before,
            "gain in information over the untrained, in shares of ln E,",
            section="analysis",
            rows=wide,
            among=ends,
            above=0.1,
            also=[bound("information over the floor", there - floors, above=0)],
            source="ours",
        )


def induction_claims(ends: DataFrame) -> Iterator[Claim]:
    """As good, as soon, and with an induction head."""
    experts, many = of(ends, "experts"), of(ends, "many maps")
    yield judge(
        "as_good_on_induction",
        f"On induction experts with a quarter of the maps do as well as dense attention ({span(experts.loss)} nats "
        f"against {span(many.loss)}).",
        paired(ends, "experts", "many maps"),
        "nats lost",
        section="abstract",
        rows=experts,
        among=ends,
        below=ALIKE,
        source="ours",
    )
    yield judge(
        "as_soon_on_induction",
        f"Experts learn induction as soon as dense attention of as many weights: in {median(experts)} steps against "
        f"{median(many)} (medians; as many maps and weights {median(of(ends, 'wide maps'))}, as many maps and as wide "
        f"{median(of(ends, 'narrow maps'))}).",
        experts.learnt.fillna(math.inf).median() / many.learnt.median() if len(experts) else math.nan,
        "ratio of the median steps",
        section="abstract",
        rows=experts,
        among=ends,
        within=factor(1, 1.25),
        source="ours",
    )
    yield judge(
        "an_induction_head_forms",
        "A head with experts becomes an induction head.",
        experts.induction_score,
        "greatest induction score of a head",
        section="analysis (one is shown)",
        rows=experts,
        among=ends,
        above=0.5,
        source="ours",
    )


def median(ends: DataFrame) -> str:
    """Of the steps until it was learnt; what never happened is later than any."""
    found = ends.learnt.fillna(math.inf).median() if len(ends) else math.nan
    return "unknown" if math.isnan(found) else "more than were trained" if math.isinf(found) else f"{found:.0f}"
