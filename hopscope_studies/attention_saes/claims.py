"""Claims on features and heads; whatever is chosen is judged on other data."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound, telling
from hopscope.experiments.reports import of

FOUND = 0.9  # of the known directions (ours)
NONE = 0.05  # of them, by chance (ours)
MOST = 0.8  # loss recovered (paper)
SPARSE = 20  # features at once (paper)
FEW = 0.1  # of all features are dead (ours)
HALF = 0.5  # of the score after a long prefix
COPIES = 0.1  # error below which a small model copies (ours)
CONTROL = "control (ours)"
#: What a reconstruction is compared with, by claim.
BETTER = {
    "better_than_random_dictionaries": "random",
    "better_than_components": "components",
    "better_than_shuffled": "shuffled",
    "better_than_the_mean": "mean",
}
#: What is claimed, by id.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "claims.toml").read_text(encoding="utf-8"))
told = telling(SENTENCES)


def sae(table: DataFrame, name: str) -> Series:
    """A number in the report on autoencoders, by run."""
    return of(table, "autoencoder", name)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about known features, small models, a layer of a language model, and its heads by prefix."""
    hand, toys, layer, language, idle = (
        table[table.part == part] for part in ("by hand", "toy", "layer", "language", "untrained")
    )
    yield from about_known(hand)
    yield from about_known_prefixes(hand)
    yield from about_toys(toys)
    yield from about_layer(layer)
    yield from about_heads(language, idle)
    yield from about_cutting(language)


def about_known(table: DataFrame) -> Iterator[Claim]:
    """Claims about the autoencoder of the hand-set layer."""
    claim, what = partial(told, Evidence(table, CONTROL)), "share of known directions"
    yield claim("known_features_recovered", sae(table, "recovered"), what, at_least=FOUND)
    chance = [*of(table, "random"), *(v for name in ("untrained", "mixed", "components") for v in sae(table, name))]
    yield claim("not_recovered_by_chance", chance, what, at_most=NONE)
    right, what = sae(table, "right_head"), "share of recovered features"
    yield told(Evidence(table, "2.2"), "features_are_of_the_right_head", right, what, at_least=FOUND)


def about_known_prefixes(table: DataFrame) -> Iterator[Claim]:
    """The claim that three hand-set heads with known prefix lengths are recognised."""
    rows = table[table.kind == "by prefix"]
    long = rows[rows.other.isin(["1", "2", "3", "4", "6", "9"])]
    reach = long.other.astype(int) >= long.step
    scores, others = (long[which].set_index("run").value for which in (reach, ~reach))
    claim, also = partial(told, Evidence(table, CONTROL)), [bound("score where it is shorter", others, equals=0)]
    yield claim("known_prefixes_told", scores, "score where the prefix is long enough", equals=1, also=also)


def about_toys(table: DataFrame) -> Iterator[Claim]:
    """Claims about small trained models."""
    errors = of(table, "error")
    copying = table[table.run.isin(errors[errors < COPIES].index)]
    asked = bound("the number of models that copy", len(copying.run.unique()), at_least=1)
    claim = partial(told, Evidence(copying, CONTROL, among=table), provided=asked)
    found, also = (
        sae(copying, "recovered"),
        [bound("share by ten random dictionaries", of(copying, "random"), at_most=NONE)],
    )
    yield claim("toy_features_recovered", found, "share of known directions", at_least=0.5, also=also)
    gained = sae(copying, "explained") - sae(copying, "explained_by_components")
    yield claim("toy_features_explain_more_than_components", gained, "share of variance gained", above=0)


def about_layer(table: DataFrame) -> Iterator[Claim]:
    """Claims about one layer of a language model, on text that the autoencoder was not trained on."""
    claim = partial(told, Evidence(table, "3", source="paper"))
    mean, low = (of(table, "recovered", "features", column) for column in ("value", "low"))
    yield claim("loss_recovered", low, "lower end of the loss recovered", number=mean.mean(), above=MOST)
    yield claim("few_features_at_once", sae(table, "l0"), "mean number of features", below=SPARSE)
    yield told(Evidence(table, "3"), "few_dead_features", sae(table, "dead"), "share of features", at_most=FEW)
    for id, name in BETTER.items():
        low = of(table, "beyond", name, "low")
        yield told(Evidence(table, CONTROL), id, low, "lower end of nats per token", above=0)


def kind_ends(table: DataFrame, kind: str, what: str, column: str) -> Series:
    """A column, such as an interval's end, of the rows of every head of a kind, by run."""
    return of(table, what, column=column, other=kind)


def per_run(table: DataFrame, met: Series) -> Series:
    """The number of heads that meet a condition, by run; 0 if none does."""
    return met.groupby(level=0).sum().reindex(table.run.unique(), fill_value=0)


def about_heads(table: DataFrame, idle: DataFrame) -> Iterator[Claim]:
    """Claims about both kinds of induction heads."""
    claim, what = partial(told, Evidence(table, "4.3")), "lower end of the difference"
    long = per_run(table, kind_ends(table, "long", "ratio", "high") < HALF)
    short = per_run(table, kind_ends(table, "short", "ratio", "low") > HALF)
    yield claim("some_want_long_prefixes", long, "number of long-prefix heads", at_least=1)
    yield claim("others_do_not", short, "number of short-prefix heads", at_least=1)
    yield claim("the_kinds_differ", of(table, "differ", "differ", "low"), what, above=0)
    yield claim("direct_effects_differ", of(table, "differ", "direct_differ", "low"), what, above=0)
    yield from about_order(table, idle)


def about_order(table: DataFrame, idle: DataFrame) -> Iterator[Claim]:
    """Claims about the order of tokens within a prefix, and about untrained heads, which should prefer no length."""
    long, short = (kind_ends(table, kind, "scrambled", "value").groupby(level=0).mean() for kind in ("long", "short"))
    yield told(Evidence(table, "4.3"), "long_ones_want_the_order", short - long, "difference of mean shares", above=0)
    found = [*of(table, "shuffled"), *of(idle, "chosen")]
    yield told(Evidence(table, CONTROL), "none_where_lengths_are_shuffled", found, "number of heads", equals=0)


def about_cutting(table: DataFrame) -> Iterator[Claim]:
    """Claims about ablated heads, on sequences that were not used to choose them, in the runs that measured this."""
    table = table[table.run.isin(table[table.kind == "cut"].run)]
    claim = partial(told, Evidence(table, "4.3"), above=0)
    for id, kind, p in (
        ("short_ones_serve_short_prefixes", "short", "1"),
        ("long_ones_serve_long_prefixes", "long", "9"),
    ):
        yield claim(id, of(table, "beyond", kind, "low", other=p), "lower end of nats")
    interaction = of(table, "differ", "interaction", "low")
    yield claim("long_ones_gain_with_length", interaction, "lower end of the difference of parts")
