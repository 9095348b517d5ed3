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
         "Cutting the eight highest induction heads costs more accuracy on the second copy than cutting the worst of "
         "ten random sets of eight (the paper reports this of Pythia-7B)",
         "share of tokens"),
        ("cutting_costs_more_than_the_same_layers", "accuracy", "same layers", MAIN,
         "Cutting the eight highest induction heads costs more accuracy than cutting the worst of ten sets of eight "
         "heads of the same layers", "share of tokens"),
        ("cutting_costs_more_nats", "log_p", "random", MAIN,
         "Cutting the eight highest induction heads costs more log-probability than cutting the worst of ten random "
         "sets of eight", "nats per token"),
        ("sixteen_cost_more_than_random", "log_p", "random", "induction 16",
         "Cutting the sixteen highest induction heads costs more log-probability than cutting the worst of ten random "
         "sets of sixteen", "nats per token"),
    ):  # fmt: skip
        rows = table[(table.kind == f"beyond the worst {control}: {measure}") & (table.name == name)]  # of some seeds
        yield Evidence(rows, SONG).claim(id, f"{words}.", rows.low, f"lower end of {what}", above=0)
    whole = of(table, "accuracy", "whole")
    yield Evidence(table, SONG).claim(
        "copying_is_gone",
        "With the eight highest induction heads cut, hardly any token of the second copy is right.",
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
        "With eight random heads cut, most of the accuracy is left on average (paper: nine tenths of it).",
        random / whole,
        "share of the accuracy that is left",
        at_least=SPARED,
    )
    yield evidence.claim(
        "previous_token_heads_are_needed",
        "Cutting the eight highest previous-token heads also costs more accuracy than cutting the worst of ten random "
        "sets.",
        of(table, "beyond the worst random: accuracy", "previous", "low"),
        "lower end of share of tokens",
        above=0,
    )
    shares = (of(table, "lost log_p on plain text", MAIN) / of(table, "lost log_p", MAIN)).dropna()
    yield Evidence(table[table.kind == "lost log_p on plain text"], SONG).claim(
        "plain_text_is_spared",
        "On plain text cutting the eight induction heads costs at most a quarter of the nats that it costs on the "
        f"second copy ({count(len(shares), 'seed')}).",
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
        "What the eight previous-token heads write and what the eight induction heads read at keys overlap more than "
        "for random heads of the same layers, in each of twenty draws.",
        low - highest(random),
        "distance of the lower end from the best draw",
        above=0,
    )
    yield Evidence(table, SONG).claim(
        "more_than_turned_at_random",
        "What the eight previous-token heads write and what the eight induction heads read at keys overlap more than "
        "with the written directions turned at random, in each of twenty draws.",
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
        "Induction heads overlap more with their best previous-token heads than with the best of eight random heads of "
        "the same layers, in each of twenty draws.",
        low - highest(others),
        "distance of the lower end from the best draw",
        above=0,
    )
    best = table[table.kind == "best"].assign(own=table.run.map(previous_heads(table)))
    yield evidence.claim(
        "the_best_are_previous_token_heads",
        "For at least half of the eight induction heads, the head of an earlier layer that overlaps most is one of the "
        "eight previous-token heads.",
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
        "A previous-token head overlaps more with an induction head than most other heads of earlier layers do, on "
        "average over pairs.",
        of(table, "place", column="low"),
        "lower end of the share of heads that overlap less",
        above=0.5,
    )
    yield evidence.claim(
        "overlap_ranks_with_induction",
        "Of all heads in layers after the first previous-token head, those that overlap more with previous-token heads "
        "have higher induction scores (Spearman's rank correlation).",
        of(table, "ranks", column="low"),
        "lower end of the rank correlation",
        above=0,
    )
    diagonal = of(table, "diagonal", "induction on previous", "low")
    chance = pandas.concat([drawn(table, "diagonal", name) for name in ("random", "shuffled")])
    yield evidence.claim(
        "weights_match",
        "The diagonal score of W_QK W_OV is higher for the induction and previous-token heads than for random heads of "
        "the same layers, and than with W_OV shuffled (ten draws each).",
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
        "Beyond chance, the two heads of the toy models share more of their subspaces than an induction head of "
        "SmolLM2 shares with its best previous-token head.",
        theirs.median() - best,
        "difference of the shares",
        above=0,
    )
    yield Evidence(hand, "control (ours)").claim(
        "by_hand",
        "Control: in a hand-set model only the copying head and the head that it reads from share a subspace; without "
        "the copying head no answer is right, and without the other head of its layer every answer is.",
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
        "Control: at initial weights the heads with the highest scores overlap no more than subspaces turned at "
        "random.",
        of(idle, "overlap", "induction on previous", step=RANK) - chance.mean(),
        "difference of the overlaps",
        below=0.02,
    )
