"""Claims on features and heads; whatever is chosen is judged on other data."""

from __future__ import annotations

from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import of

FOUND = 0.9  # of the known directions (ours)
NONE = 0.05  # of them, by chance (ours)
MOST = 0.8  # loss recovered (paper)
SPARSE = 20  # features at once (paper)
FEW = 0.1  # of all features are dead (ours)
HALF = 0.5  # of the score after a long prefix
COPIES = 0.1  # error below which a small model copies (ours)


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
    evidence = Evidence(table, "control (ours)")
    yield evidence.claim(
        "known_features_recovered",
        "If the outputs of a layer with hand-set weights are sums of known directions, twice as many as dimensions, a "
        "sparse autoencoder recovers nine in ten of these directions (with a cosine of 0.9 or more).",
        sae(table, "recovered"),
        "share of known directions",
        at_least=FOUND,
    )
    chance = [*of(table, "random"), *(v for name in ("untrained", "mixed", "components") for v in sae(table, name))]
    yield evidence.claim(
        "not_recovered_by_chance",
        "Random dictionaries, an untrained autoencoder, an autoencoder trained on permuted activations, and principal "
        "components recover next to none of a hand-set layer's known directions.",
        chance,
        "share of known directions",
        at_most=NONE,
    )
    yield Evidence(table, "2.2").claim(
        "features_are_of_the_right_head",
        "In a hand-set layer, nine in ten of the features that match a known direction read mostly from the head that "
        "writes it (0.8 or more, by the paper's attribution).",
        sae(table, "right_head"),
        "share of recovered features",
        at_least=FOUND,
    )


def about_known_prefixes(table: DataFrame) -> Iterator[Claim]:
    """The claim that three hand-set heads with known prefix lengths are recognised."""
    rows = table[table.kind == "by prefix"]
    long = rows[rows.other.isin(["1", "2", "3", "4", "6", "9"])]
    reach = long.other.astype(int) >= long.step
    yield Evidence(table, "control (ours)").claim(
        "known_prefixes_told",
        "In a hand-set layer, an induction head that needs n matching tokens has an induction score of 1 after "
        "prefixes of n tokens or more, and of 0 after shorter ones.",
        long[reach].set_index("run").value,
        "score where the prefix is long enough",
        equals=1,
        also=[bound("score where it is shorter", long[~reach].set_index("run").value, equals=0)],
    )


def about_toys(table: DataFrame) -> Iterator[Claim]:
    """Claims about small trained models."""
    errors = of(table, "error")
    copying = table[table.run.isin(errors[errors < COPIES].index)]
    asked = bound("the number of models that copy", len(copying.run.unique()), at_least=1)
    evidence = Evidence(copying, "control (ours)", among=table)
    yield evidence.claim(
        "toy_features_recovered",
        "In small trained models that copy, a sparse autoencoder recovers half of the directions that the second "
        "layer's head writes for the tokens that it attends to.",
        sae(copying, "recovered"),
        "share of known directions",
        at_least=0.5,
        also=[bound("share by ten random dictionaries", of(copying, "random"), at_most=NONE)],
        provided=asked,
    )
    yield evidence.claim(
        "toy_features_explain_more_than_components",
        "In small trained models that copy, the active features of a sparse autoencoder explain more of the variance "
        "of attention outputs than the same number of principal components.",
        sae(copying, "explained") - sae(copying, "explained_by_components"),
        "share of variance gained",
        above=0,
        provided=asked,
    )


def about_layer(table: DataFrame) -> Iterator[Claim]:
    """Claims about one layer of a language model, on text that the autoencoder was not trained on."""
    yield Evidence(table, "3", source="paper").claim(
        "loss_recovered",
        "A sparse autoencoder of one layer of a language model recovers more than 80 % of what the layer's attention "
        "outputs lower the loss by.",
        of(table, "recovered", "features", "low"),
        "lower end of the loss recovered",
        number=of(table, "recovered", "features").mean(),
        above=MOST,
    )
    yield Evidence(table, "3", source="paper").claim(
        "few_features_at_once",
        "On text that it was not trained on, a sparse autoencoder of a language model's attention outputs has fewer "
        "than 20 features active at once.",
        sae(table, "l0"),
        "mean number of features",
        below=SPARSE,
    )
    yield Evidence(table, "3").claim(
        "few_dead_features",
        "At most a tenth of the features of a sparse autoencoder of a language model's attention outputs are dead, "
        "that is, active in none of the training vectors.",
        sae(table, "dead"),
        "share of features",
        at_most=FEW,
    )
    for id, name, words in (
        ("better_than_random_dictionaries", "random", "the best of ten random dictionaries, equally sparse"),
        ("better_than_components", "components", "as many principal components as features are active at once"),
        ("better_than_shuffled", "shuffled", "the best of ten shufflings of its own reconstructions over tokens"),
        ("better_than_the_mean", "mean", "the layer's mean output"),
    ):
        yield Evidence(table, "control (ours)").claim(
            id,
            f"With an autoencoder's reconstruction of attention outputs, the loss is lower than with {words}.",
            of(table, "beyond", name, "low"),
            "lower end of nats per token",
            above=0,
        )


def kind_ends(table: DataFrame, kind: str, what: str, column: str) -> Series:
    """A column, such as an interval's end, of the rows of every head of a kind, by run."""
    return of(table, what, column=column, other=kind)


def per_run(table: DataFrame, met: Series) -> Series:
    """The number of heads that meet a condition, by run; 0 if none does."""
    return met.groupby(level=0).sum().reindex(table.run.unique(), fill_value=0)


def about_heads(table: DataFrame, idle: DataFrame) -> Iterator[Claim]:
    """Claims about both kinds of induction heads."""
    evidence = Evidence(table, "4.3")
    yield evidence.claim(
        "some_want_long_prefixes",
        "After a prefix of one matching token, some induction heads have less than half of their full induction score "
        "(the whole 95 % interval lies below half; judged on other sequences than those that chose the heads).",
        per_run(table, kind_ends(table, "long", "ratio", "high") < HALF),
        "number of long-prefix heads",
        at_least=1,
    )
    yield evidence.claim(
        "others_do_not",
        "After a prefix of one matching token, some induction heads have more than half of their full induction score "
        "(the whole 95 % interval lies above half; judged on other sequences than those that chose the heads).",
        per_run(table, kind_ends(table, "short", "ratio", "low") > HALF),
        "number of short-prefix heads",
        at_least=1,
    )
    yield evidence.claim(
        "the_kinds_differ",
        "After a prefix of one matching token, short-prefix induction heads have a larger share of their full "
        "induction score than long-prefix induction heads do.",
        of(table, "differ", "differ", "low"),
        "lower end of the difference",
        above=0,
    )
    yield evidence.claim(
        "direct_effects_differ",
        "After a prefix of one matching token, short-prefix induction heads have a larger share of their full direct "
        "effect on the right token's logit than long-prefix induction heads do.",
        of(table, "differ", "direct_differ", "low"),
        "lower end of the difference",
        above=0,
    )
    yield from about_order(table, idle)


def about_order(table: DataFrame, idle: DataFrame) -> Iterator[Claim]:
    """Claims about the order of tokens within a prefix, and about untrained heads, which should prefer no length."""
    long, short = (kind_ends(table, kind, "scrambled", "value").groupby(level=0).mean() for kind in ("long", "short"))
    yield Evidence(table, "4.3").claim(
        "long_ones_want_the_order",
        "If the tokens of the prefix, except the last, are put in another order, long-prefix induction heads keep a "
        "smaller share of their induction score than short-prefix induction heads do.",
        short - long,
        "difference of mean shares",
        above=0,
    )
    yield Evidence(table, "control (ours)").claim(
        "none_where_lengths_are_shuffled",
        "Control: if the lengths of prefixes are shuffled, no head counts as a long-prefix induction head, and in a "
        "model at its initial weights no head counts as an induction head.",
        [*of(table, "shuffled"), *of(idle, "chosen")],
        "number of heads",
        equals=0,
    )


def about_cutting(table: DataFrame) -> Iterator[Claim]:
    """Claims about ablated heads, on sequences that were not used to choose them, in the runs that measured this."""
    table = table[table.run.isin(table[table.kind == "cut"].run)]
    evidence = Evidence(table, "4.3")
    for id, kind, p, words in (
        ("short_ones_serve_short_prefixes", "short", "1", "raises the loss more after one matching token"),
        ("long_ones_serve_long_prefixes", "long", "9", "raises the loss more after nine matching tokens"),
    ):
        yield evidence.claim(
            id,
            f"Ablating the {kind}-prefix induction heads with the highest scores {words} than ablating any of ten "
            "random sets of as many other heads does.",
            of(table, "beyond", kind, "low", other=p),
            "lower end of nats",
            above=0,
        )
    yield evidence.claim(
        "long_ones_gain_with_length",
        "From prefixes of one matching token to prefixes of nine, the share of the prefix's gain that is lost without "
        "long-prefix induction heads rises more than the share lost without short-prefix ones.",
        of(table, "differ", "interaction", "low"),
        "lower end of the difference of parts",
        above=0,
    )
