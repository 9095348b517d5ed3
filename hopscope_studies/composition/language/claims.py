"""The claims of `composition_llm`; heads are chosen on sequences that are not used to judge claims."""

from __future__ import annotations

from collections.abc import Iterator

import pandas
from pandas import DataFrame, Series

from hopscope.core.wording import count
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.reports import of

SONG = "4 (language models)"
MAIN, RANK = "induction 8", 10
GONE = 0.1  # share of the accuracy that is left (ours)
SPARED = 0.8  # share of the accuracy that is left with random heads cut (ours)
PLAIN = 0.25  # of what is lost on repeats (ours, as for retrieval heads)


def drawn(table: DataFrame, kind: str, name: str, rank: int | None = None) -> Series:
    """The values of random draws, named `random 0` and so on, by run."""
    return of(table[table.name.str.fullmatch(rf"{name} \d+").astype(bool)], kind, step=rank)


def highest(values: Series) -> Series:
    """The highest value of each run."""
    return values.groupby(level=0).max()


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about ablation, bridges, toy models and controls."""
    language = table[table.part == "language"]
    yield from about_cutting(language)
    yield from about_bridges(language)
    yield from about_pairs(language)
    yield from about_others(table)


def about_cutting(table: DataFrame) -> Iterator[Claim]:
    """Claims about what copying loses without the induction heads."""
    for id, measure, control, name, words, what in (
        ("cutting_costs_more_than_random", "accuracy", "random", MAIN,
         "Ablating the eight highest-scoring induction heads lowers the accuracy on a random sequence's second copy "
         "more than ablating any of ten random sets of eight (the paper reports this of Pythia-7B)",
         "share of tokens"),
        ("cutting_costs_more_than_the_same_layers", "accuracy", "same layers", MAIN,
         "Ablating the eight highest-scoring induction heads lowers the accuracy on a random sequence's second copy "
         "more than ablating any of ten sets of eight heads of the same layers", "share of tokens"),
        ("cutting_costs_more_nats", "log_p", "random", MAIN,
         "Ablating the eight highest-scoring induction heads lowers the log-probability of a random sequence's second "
         "copy more than ablating any of ten random sets of eight", "nats per token"),
        ("sixteen_cost_more_than_random", "log_p", "random", "induction 16",
         "Ablating the sixteen highest-scoring induction heads lowers the log-probability of a random sequence's "
         "second copy more than ablating any of ten random sets of sixteen", "nats per token"),
    ):  # fmt: skip
        rows = table[(table.kind == f"beyond the worst {control}: {measure}") & (table.name == name)]  # of some seeds
        yield Evidence(rows, SONG).claim(id, f"{words}.", rows.low, f"lower end of {what}", above=0)
    whole = of(table, "accuracy", "whole")
    yield Evidence(table, SONG).claim(
        "copying_is_gone",
        "With the eight highest-scoring induction heads ablated, the model predicts hardly any token of a repeated "
        "random sequence's second copy correctly.",
        of(table, "accuracy", MAIN, "high") / whole,
        "upper end of the share of the accuracy that is left",
        below=GONE,
    )
    yield from about_sparing(table)


def about_sparing(table: DataFrame) -> Iterator[Claim]:
    """Claims about ablating other heads, and about the effect of ablation elsewhere."""
    evidence, whole = Evidence(table, SONG), of(table, "accuracy", "whole")
    random = drawn(table, "accuracy", "random 8").groupby(level=0).mean()
    yield evidence.claim(
        "random_heads_are_spared",
        "With eight random heads ablated, most of the accuracy on a repeated random sequence's second copy is left on "
        "average (paper: nine tenths of it).",
        random / whole,
        "share of the accuracy that is left",
        at_least=SPARED,
    )
    yield evidence.claim(
        "previous_token_heads_are_needed",
        "Ablating the eight highest-scoring previous-token heads lowers the accuracy on the second copy more than "
        "ablating any of ten random sets of eight.",
        of(table, "beyond the worst random: accuracy", "previous", "low"),
        "lower end of share of tokens",
        above=0,
    )
    shares = (of(table, "lost log_p on plain text", MAIN) / of(table, "lost log_p", MAIN)).dropna()
    yield Evidence(table[table.kind == "lost log_p on plain text"], SONG).claim(
        "plain_text_is_spared",
        "Ablating the eight highest-scoring induction heads raises the loss on plain text by at most a quarter of its "
        f"rise on the second copy of a random sequence ({count(len(shares), 'seed')}).",
        shares,
        "nats lost on text as a share of those on copies",
        at_most=PLAIN,
    )


def about_bridges(table: DataFrame) -> Iterator[Claim]:
    """Claims about the subspaces of all pairs of eight induction heads and eight previous-token heads."""
    low = of(table, "overlap", "induction on previous", "low", step=RANK)
    random = drawn(table, "overlap", "random", RANK)
    turned = drawn(table, "overlap", "turned", RANK)
    yield Evidence(table, SONG).claim(
        "subspaces_match",
        "The subspaces that the eight best previous-token heads write overlap more with those that the eight best "
        "induction heads read at keys than is so for random heads of the same layers, in each of twenty draws.",
        low - highest(random),
        "distance of the lower end from the best draw",
        above=0,
    )
    yield Evidence(table, SONG).claim(
        "more_than_turned_at_random",
        "The subspaces that the eight best previous-token heads write overlap more with those that the eight best "
        "induction heads read at keys than randomly rotated copies do, in each of twenty draws.",
        low - highest(turned),
        "distance of the lower end from the best draw",
        above=0,
    )


def about_pairs(table: DataFrame) -> Iterator[Claim]:
    """Claims about which pairs have a bridge."""
    evidence = Evidence(table, SONG)
    low = of(table, "best overlap", "induction on previous", "low", step=RANK)
    others = drawn(table, "best overlap", "random earlier", RANK)
    yield evidence.claim(
        "the_best_match_more",
        "The subspace that an induction head reads at keys overlaps more with that of its best-matching previous-token "
        "head than with the best of eight random heads of the same layers, on average, in each of twenty draws.",
        low - highest(others),
        "distance of the lower end from the best draw",
        above=0,
    )
    best = table[table.kind == "best"].assign(own=table.run.map(previous_heads(table)))
    yield evidence.claim(
        "the_best_are_previous_token_heads",
        "For at least half of the eight best induction heads, the earlier head whose written subspace overlaps most "
        "with what they read at keys is one of the eight best previous-token heads.",
        Series([str(other) in own for other, own in zip(best.other, best.own, strict=True)], dtype=float),
        "induction heads with such a partner",
        of="share of",
        at_least=0.5,
    )
    yield from about_ranks(table)


def about_ranks(table: DataFrame) -> Iterator[Claim]:
    """Claims about which heads overlap more than others, and about how their weights match."""
    evidence = Evidence(table, SONG)
    yield evidence.claim(
        "previous_token_heads_come_first",
        "The subspace that a previous-token head writes overlaps more with what an induction head reads at keys than "
        "those of most other earlier heads do, on average over pairs.",
        of(table, "place", column="low"),
        "lower end of the share of heads that overlap less",
        above=0.5,
    )
    yield evidence.claim(
        "overlap_ranks_with_induction",
        "Heads that read at keys more of what previous-token heads write have higher induction scores (Spearman's rank "
        "correlation over all heads after the first previous-token head's layer).",
        of(table, "ranks", column="low"),
        "lower end of the rank correlation",
        above=0,
    )
    diagonal = of(table, "diagonal", "induction on previous", "low")
    chance = pandas.concat([drawn(table, "diagonal", name) for name in ("random", "shuffled")])
    yield evidence.claim(
        "weights_match",
        "The diagonal score of W_QK W_OV is higher for pairs of an induction head and a previous-token head than for "
        "random heads of the same layers, and than with W_OV shuffled (ten draws each).",
        diagonal - highest(chance),
        "distance of the lower end from the best draw",
        above=0,
    )


def previous_heads(table: DataFrame) -> dict[str, list[str]]:
    """The chosen previous-token heads, by run."""
    rows = table[(table.kind == "chosen") & (table.name == "previous")]
    return {str(run): str(other).split() for run, other in zip(rows.run, rows.other, strict=True)}


def excess(overlap: Series, floor: Series) -> Series:
    """Mean squared cosine beyond chance, normalised: 0 for random subspaces, 1 for equal ones."""
    return (overlap**2 - floor**2) / (1 - floor**2)


def about_others(table: DataFrame) -> Iterator[Claim]:
    """Claims that compare with the toy models, and control claims."""
    language, toys, hand, idle = (table[table.part == part] for part in ("language", "toy", "by hand", "untrained"))
    floor = of(language, "overlap", "in theory", step=RANK).groupby(level=0).first()
    best = excess(of(language, "best overlap", "induction on previous", step=RANK), floor).mean()
    each = Series(of(toys, "overlap", "toy").to_numpy())
    theirs = excess(each, Series(of(toys, "overlap", "in theory").to_numpy()))
    yield Evidence(pandas.concat([language, toys]), "beside the toy models").claim(
        "closer_in_the_toy",
        "The subspaces of the toy models' two heads overlap more, beyond chance, than the subspace of an induction "
        "head of SmolLM2 overlaps with that of its best-matching previous-token head.",
        theirs.median() - best,
        "difference of the shares",
        above=0,
    )
    yield Evidence(hand, "control (ours)").claim(
        "by_hand",
        "Control: in a model with hand-set weights only the copying head and the head that it reads from share a "
        "subspace; without the copying head no answer is right, and without the other head of its layer all are.",
        of(hand, "overlap", "induction on previous"),
        "overlap",
        above=0.99,
        also=[
            bound("overlap of random heads", highest(drawn(hand, "overlap", "random")), below=0.01),
            bound("accuracy with the head cut", of(hand, "accuracy", "induction 1"), below=0.05),
            bound("accuracy with another cut", drawn(hand, "accuracy", "same layers 1"), at_least=0.99),
        ],
    )
    chance = drawn(idle, "overlap", "turned", RANK)
    yield Evidence(idle, "control (ours)").claim(
        "untrained",
        "Control: at initial weights the subspaces of the heads with the highest induction and previous-token scores "
        "overlap no more than randomly rotated subspaces.",
        of(idle, "overlap", "induction on previous", step=RANK) - chance.mean(),
        "difference of the overlaps",
        below=0.02,
    )
