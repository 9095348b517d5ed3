"""The claims of `composition_llm`; heads are chosen on sequences that are not used to judge claims."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pandas
from pandas import DataFrame, Series

from hopscope.core.wording import count
from hopscope.experiments.judging import Claim, Evidence, bound, telling
from hopscope.experiments.reports import of
from hopscope_studies.composition.claims import SENTENCES

SONG = "4 (language models)"
MAIN, RANK = "induction 8", 10
BEST_DRAW = "distance of the lower end from the best draw"
GONE = 0.1  # share of the accuracy that is left (ours)
SPARED = 0.8  # share of the accuracy that is left with random heads cut (ours)
PLAIN = 0.25  # of what is lost on repeats (ours, as for retrieval heads)
told = telling(SENTENCES["composition_llm"])


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
    for id, measure, control, name, what in (
        ("cutting_costs_more_than_random", "accuracy", "random", MAIN, "share of tokens"),
        ("cutting_costs_more_than_the_same_layers", "accuracy", "same layers", MAIN, "share of tokens"),
        ("cutting_costs_more_nats", "log_p", "random", MAIN, "nats per token"),
        ("sixteen_cost_more_than_random", "log_p", "random", "induction 16", "nats per token"),
    ):
        rows = table[(table.kind == f"beyond the worst {control}: {measure}") & (table.name == name)]  # of some seeds
        yield told(Evidence(rows, SONG), id, rows.low, f"lower end of {what}", above=0)
    left = of(table, "accuracy", MAIN, "high") / of(table, "accuracy", "whole")
    what = "upper end of the share of the accuracy that is left"
    yield told(Evidence(table, SONG), "copying_is_gone", left, what, below=GONE)
    yield from about_sparing(table)


def about_sparing(table: DataFrame) -> Iterator[Claim]:
    """Claims about ablating other heads, and about the effect of ablation elsewhere."""
    claim, whole = partial(told, Evidence(table, SONG)), of(table, "accuracy", "whole")
    left = drawn(table, "accuracy", "random 8").groupby(level=0).mean() / whole
    yield claim("random_heads_are_spared", left, "share of the accuracy that is left", at_least=SPARED)
    low = of(table, "beyond the worst random: accuracy", "previous", "low")
    yield claim("previous_token_heads_are_needed", low, "lower end of share of tokens", above=0)
    shares = (of(table, "lost log_p on plain text", MAIN) / of(table, "lost log_p", MAIN)).dropna()
    evidence, id = Evidence(table[table.kind == "lost log_p on plain text"], SONG), "plain_text_is_spared"
    sentence = SENTENCES["composition_llm"][id].format(seeds=count(len(shares), "seed"))
    yield evidence.claim(id, sentence, shares, "nats lost on text as a share of those on copies", at_most=PLAIN)


def about_bridges(table: DataFrame) -> Iterator[Claim]:
    """Claims about the subspaces of all pairs of eight induction heads and eight previous-token heads."""
    low = of(table, "overlap", "induction on previous", "low", step=RANK)
    random = drawn(table, "overlap", "random", RANK)
    turned = drawn(table, "overlap", "turned", RANK)
    claim = partial(told, Evidence(table, SONG))
    yield claim("subspaces_match", low - highest(random), BEST_DRAW, above=0)
    yield claim("more_than_turned_at_random", low - highest(turned), BEST_DRAW, above=0)


def about_pairs(table: DataFrame) -> Iterator[Claim]:
    """Claims about which pairs have a bridge."""
    claim = partial(told, Evidence(table, SONG))
    low = of(table, "best overlap", "induction on previous", "low", step=RANK)
    others = drawn(table, "best overlap", "random earlier", RANK)
    yield claim("the_best_match_more", low - highest(others), BEST_DRAW, above=0)
    best = table[table.kind == "best"].assign(own=table.run.map(previous_heads(table)))
    among = [float(str(other) in own) for other, own in zip(best.other, best.own, strict=True)]
    what = "induction heads with such a partner"
    yield claim("the_best_are_previous_token_heads", among, what, of="share of", at_least=0.5)
    yield from about_ranks(table)


def about_ranks(table: DataFrame) -> Iterator[Claim]:
    """Claims about which heads overlap more than others, and about how their weights match."""
    claim = partial(told, Evidence(table, SONG))
    less, ranks = of(table, "place", column="low"), of(table, "ranks", column="low")
    yield claim("previous_token_heads_come_first", less, "lower end of the share of heads that overlap less", above=0.5)
    yield claim("overlap_ranks_with_induction", ranks, "lower end of the rank correlation", above=0)
    diagonal = of(table, "diagonal", "induction on previous", "low")
    chance = pandas.concat([drawn(table, "diagonal", name) for name in ("random", "shuffled")])
    yield claim("weights_match", diagonal - highest(chance), BEST_DRAW, above=0)


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
    both = Evidence(pandas.concat([language, toys]), "beside the toy models")
    yield told(both, "closer_in_the_toy", theirs.median() - best, "difference of the shares", above=0)
    also = [
        bound("overlap of random heads", highest(drawn(hand, "overlap", "random")), below=0.01),
        bound("accuracy with the head cut", of(hand, "accuracy", "induction 1"), below=0.05),
        bound("accuracy with another cut", drawn(hand, "accuracy", "same layers 1"), at_least=0.99),
    ]
    shared, control = of(hand, "overlap", "induction on previous"), "control (ours)"
    yield told(Evidence(hand, control), "by_hand", shared, "overlap", above=0.99, also=also)
    turned = drawn(idle, "overlap", "turned", RANK)
    more = of(idle, "overlap", "induction on previous", step=RANK) - turned.mean()
    yield told(Evidence(idle, control), "untrained", more, "difference of the overlaps", below=0.02)
