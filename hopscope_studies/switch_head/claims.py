"""The claims of `switch_head`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound, factor, telling

ALIKE = 0.02  # losses within this many nats count as equal (ours; the paper's perplexities agree to a percent or two)
MANY_LEFT = 0.5  # loss in nats above which several places are unread (ours)
SPECIALISE = (
    "{} experts specialise in positions: which gate is largest tells more about the {} position than before training, "
    "and more than with positions shuffled."
)
#: What is claimed, by id.
SENTENCES = {
    "counts_are_matched": "Models with experts and the dense models compared with them have equally many weights in "
    "attention, apart from biases.",
    "one_map_can_serve_several_places": "With hand-set weights a single attention map with E experts reads E different "
    "earlier tokens, but not if every gate is set to its mean.",
    "experts_beat_as_many_maps": "On the task of naming several earlier tokens, heads with experts reach a lower loss "
    "than wider dense heads with as many attention maps and weights.",
    "a_quarter_of_the_maps_is_enough": "On the task of naming several earlier tokens, heads with experts, with a "
    "quarter of the attention maps and as many weights, reach the loss of dense attention.",
    "wide_experts_read_every_place": "With a quarter of the attention maps and wider experts, several earlier tokens "
    "are named as well as with a map for each of them.",
    "weights_alone_do_not": "Control: dense heads with as many attention maps and weights as heads with wider experts "
    "do not learn to name all earlier tokens asked for.",
    "choosing_does_it": "Naming several earlier tokens with one attention map depends on the choice of experts: if "
    "every gate is set to its mean, accuracy falls.",
    "value_experts_specialise_in_places": SPECIALISE.format("Value", "source"),
    "output_experts_specialise_in_places": SPECIALISE.format("Output", "destination"),
    "as_good_on_induction": "On induction, heads with experts, with a quarter of the attention maps, reach the loss of "
    "dense attention.",
    "as_soon_on_induction": "Heads with experts learn induction in about as many steps as dense attention with as many "
    "weights needs.",
    "an_induction_head_forms": "In models that learn induction, a head with experts becomes an induction head.",
    "untrained_models_guess": "Control: before training a model is right about as often as a guess.",
}
told = telling(SENTENCES)


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims on counts, the construction, places and induction, and a control."""
    ends, hand = table[table.kind == "end"], table[table.kind == "by hand"]
    places, induction = ends[ends.part == "places"], ends[ends.part == "induction"]
    yield counts_claim(places)
    claim = partial(told, Evidence(hand, "ours", source="exact"), "one_map_can_serve_several_places")
    unread = bound("accuracy with gates at their means", hand.held_accuracy, below=0.9)
    yield claim(hand.accuracy, "accuracy", equals=1, also=[unread])
    yield from maps_claims(places)
    yield from choice_claims(places)
    yield from induction_claims(induction)
    times = ends.start_accuracy * ends.guess.map(math.exp)
    claim = partial(told, Evidence(ends, "control"), "untrained_models_guess")
    yield claim(times, "accuracy at step 0, in times a guess's", below=3)


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
    more = bound("maps of experts in those of many maps", many.maps.mean() / experts.maps.mean(), at_least=2)
    claim = partial(told, Evidence(ends, "ours", source="exact"), "counts_are_matched")
    return claim(equal, "difference in weights", equals=0, also=[more])


def maps_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims on experts at equal weights, with fewer maps or as many, and on wider experts and their weights alone."""
    experts, wide, widest = (of(ends, name) for name in ("experts", "wide experts", "widest maps"))
    claim = partial(told, Evidence(experts, "baselines matched in parameters", among=ends))
    yield claim("experts_beat_as_many_maps", paired(ends, "wide maps", "experts"), "nats saved", above=0)
    lost = {"a_quarter_of_the_maps_is_enough": experts, "wide_experts_read_every_place": wide}
    for (id, rows), model in zip(lost.items(), ("experts", "wide experts"), strict=True):
        claim = partial(told, Evidence(rows, "abstract", among=ends))
        yield claim(id, paired(ends, model, "many maps"), "nats lost", below=ALIKE)
    claim = partial(told, Evidence(widest, "control", among=ends))
    yield claim("weights_alone_do_not", widest.loss, "final loss", above=MANY_LEFT)


def choice_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims on what the choice of experts depends on, and whether it matters."""
    wide = of(ends, "wide experts")
    learnt = bound("accuracy as learnt", wide.accuracy, above=0.9)
    claim = partial(told, Evidence(wide, "control", among=ends), also=[learnt], below=0.6)
    yield claim("choosing_does_it", wide.held_accuracy, "accuracy with gates at their means")
    claim = partial(told, Evidence(wide, "analysis", among=ends), above=0.1)
    what = "gain in information over the untrained, in shares of ln E,"
    for name in ("value", "output"):
        there, before = wide[f"{name}s_by_place"], wide[f"start_{name}s_by_place"]
        over = bound("information over the floor", there - wide[f"{name}s_by_place_floor"], above=0)
        yield claim(f"{name}_experts_specialise_in_places", there - before, what, also=[over])


def induction_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims on whether experts learn induction as well and as soon, with an induction head."""
    experts, many = of(ends, "experts"), of(ends, "many maps")
    claim = partial(told, Evidence(experts, "abstract", among=ends))
    yield claim("as_good_on_induction", paired(ends, "experts", "many maps"), "nats lost", below=ALIKE)
    ratio = experts.learnt.fillna(math.inf).median() / many.learnt.median() if len(experts) else math.nan
    yield claim("as_soon_on_induction", ratio, "ratio of the median steps", within=factor(1, 1.25))
    claim = partial(told, Evidence(experts, "analysis (one is shown)", among=ends))
    yield claim("an_induction_head_forms", experts.induction_score, "greatest induction score of a head", above=0.5)
