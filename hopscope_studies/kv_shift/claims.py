"""The claims of `kv_shift`, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, bound, factor, telling

LEARNT = 0.5  # share of a guess's loss below which a hop counts as learnt (as the paper's 0.5 on retrieval)
GAIN = 0.02  # nats of the same loss that do not count (ours)
#: The tasks of hops, by part.
TASKS = {"letters": "k-hop induction", "chains": "the retrieval problem (plain attention has a previous-token prior)"}
#: What is claimed of each, by the end of its id.
OF_HOPS = {
    "reach_the_least_depth": "models of KV shifting attention learn every hop that theory allows them: one hop with "
    "one layer, and three hops with two.",
    "go_no_further": "no model, with the shift or without, learns a hop that in theory needs more layers.",
}
#: What is claimed, by id.
SENTENCES = {
    "one_layer_is_an_induction_head": "A one-layer model of KV shifting attention solves induction.",
    "one_plain_layer_is_none": "A one-layer model of plain attention does not learn induction.",
    "it_is_faster_than_two_plain_layers": "In every seed one layer of KV shifting attention learns induction sooner "
    "than two layers of plain attention do.",
    "blends_are_the_construction": "One layer of KV shifting attention, which blends each token's keys and values with "
    "those of the previous token, learns induction by the paper's construction: keys mostly from the previous token, "
    "values mostly from the token itself.",
    "keys_unshifted_it_guesses": "Control: a one-layer model of KV shifting attention that solves induction only "
    "guesses without the shift.",
    "a_drawn_start_does_as_well": "If the initial blends of keys and values are drawn at random, KV shifting attention "
    "learns induction in every run, and as fast as from blends of one half.",
    "no_gain_on_n_grams": "On text of a fixed 3-gram model, where there is nothing to look up in the context, KV "
    "shifting attention ends with no lower loss than plain attention.",
    "least_depths_are_exact": "The formula for the fewest layers that KV shifting attention needs agrees with two "
    "exact computations: one without a causal mask, and one over all schedules of one head per layer.",
    **{f"{part}_{id}": f"On {task}, {words}" for id, words in OF_HOPS.items() for part, task in TASKS.items()},
    "untrained_knows_nothing": "Control: before training, models for induction are right no more often than any "
    "constant answer.",
}
told = telling(SENTENCES)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about induction, the blends, n-grams, depth, and a control."""
    ends = table[table.kind == "end"]
    induction = ends[ends.part == "induction"]
    yield from one_layer_claims(induction)
    yield from blend_claims(induction)
    yield n_gram_claim(ends[ends.part == "n-gram"])
    yield theory_claim(table[table.kind == "theory"])
    hops = table[table.kind == "hop"]
    yield from depth_claims(hops[(hops.part == "letters") & (hops.k > 0)], "letters")
    yield from depth_claims(hops[hops.part == "chains"], "chains")
    claim = partial(told, Evidence(induction, "control"), "untrained_knows_nothing")
    yield claim(induction.start_accuracy, "accuracy at step 0", below=0.1)


def of(ends: DataFrame, attention: str, layers: int) -> DataFrame:
    """The rows of a cell's runs."""
    return ends[(ends.attention == attention) & (ends.layers == layers)]


def one_layer_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims about one layer against one plain layer, and against two."""
    one, alone, two = of(ends, "kv", 1), of(ends, "plain", 1), of(ends, "plain", 2)
    claim = partial(told, Evidence(one, "section 3.2", among=ends))
    yield claim("one_layer_is_an_induction_head", one.accuracy, "final accuracy", at_least=0.95)
    plain = Evidence(alone, "section 3.2", among=ends)
    yield told(plain, "one_plain_layer_is_none", alone.accuracy, "final accuracy", below=0.5)
    sooner = (steps(two) - steps(one)).dropna()
    yield claim("it_is_faster_than_two_plain_layers", sooner, "steps saved", above=0)


def blend_claims(ends: DataFrame) -> Iterator[Claim]:
    """Claims about which blends are learnt, what they do, and from which initial values."""
    one, drawn = of(ends, "kv", 1), of(ends, "kv drawn", 1)
    own = bound("part of values that is the token itself", one.values_here, above=0.8)
    claim = partial(told, Evidence(one, "section 3.1, theorem 2", among=ends), "blends_are_the_construction")
    yield claim(one.keys_before, "part of keys that is the token before", above=0.8, also=[own])
    made = bound("accuracy with the construction's blends", one.constructed, at_least=0.9)
    claim = partial(told, Evidence(one, "control", among=ends), "keys_unshifted_it_guesses")
    yield claim(one.unshifted, "accuracy unshifted", below=0.5, also=[made])
    ratio = float(drawn.learnt.median() / one.learnt.median()) if len(one) else math.nan
    right = bound("final accuracy of drawn starts", drawn.accuracy, at_least=0.95)
    claim = partial(told, Evidence(drawn, "section 2.2 (drawn)", among=ends), "a_drawn_start_does_as_well")
    yield claim(ratio, "ratio of the median steps", within=factor(1, 1.5), also=[right])


def steps(ends: DataFrame) -> Series:
    """By seed, the step at which induction was learnt; ∞ if never."""
    return ends.set_index("seed").learnt.fillna(math.inf).sort_index()


def n_gram_claim(ends: DataFrame) -> Claim:
    """The negative control: no gain on n-grams."""
    one, plain = of(ends, "kv", 1), of(ends, "plain", 1)
    gain = (plain.set_index("seed").loss - one.set_index("seed").loss).dropna()
    claim = partial(told, Evidence(one, "section 3.3", among=ends), "no_gain_on_n_grams")
    return claim(gain, "nats saved", within=around(0, GAIN))


def theory_claim(rows: DataFrame) -> Claim:
    """The claim that the formula for the minimum depth agrees with two exact computations."""
    apart = (rows.formula - rows.everyone).abs() + (rows.formula - rows.search.fillna(rows.formula)).abs()
    return told(Evidence(rows, "ours", "exact"), "least_depths_are_exact", apart, "difference in layers", equals=0)


def depth_claims(hops: DataFrame, part: str) -> Iterator[Claim]:
    """Claims that L layers learn 2^L − 1 hops and no more, and that plain attention needs one layer more."""
    shares = hops.assign(
        share=hops.loss / hops.chance, within=[most(*row) for row in hops[["attention", "layers"]].values]
    )
    reached, beyond = shares[shares.k <= shares.within], shares[shares.k > shares.within]
    kv, what = reached[reached.attention == "kv"], "final loss as a share of a guess's"
    source = "the paper of the problem"
    claim = partial(told, Evidence(kv, "ours, after appendix H", source, hops), f"{part}_reach_the_least_depth")
    yield claim(kv.share, what, below=LEARNT)
    yield told(Evidence(beyond, "ours", source, hops), f"{part}_go_no_further", beyond.share, what, above=LEARNT)


def most(attention: str, layers: int) -> int:
    """The number of hops within exact reach: 2^L − 1, or 2^(L−1) − 1 for plain attention."""
    return int(2 ** (layers - (attention == "plain")) - 1)
