"""The claims of `episodic_memory_llm`, judged on sequences that were not used to choose anything."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pandas
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, between, bound, telling
from hopscope.experiments.reports import of
from hopscope_studies.episodic_memory.claims import CMR, CONTIGUOUS, EMERGENCE, RANDOM, said_of
from hopscope_studies.episodic_memory.fit import NEAR

RELIABLE = 0.5  # rank correlation of two halves (ours)
GONE = 0.1  # share of contiguity left (the toy study's bound)
RARE = 0.1  # share of heads (ours)
CONTROL = "control (ours)"
RANKED = ("matching", "matching: heads that do not copy", "both halves")
told = telling(said_of("episodic_memory_llm"))


def of_chosen(table: DataFrame, kind: str, column: str = "value") -> Series:
    """A column of a kind's rows for the heads with the highest matching scores, by run."""
    found = []
    for run, rows in table.groupby("run"):
        heads = " ".join(rows[(rows.kind == "chosen") & (rows.name == "matching")].other).split()
        part = rows[(rows.kind == kind) & rows.name.isin(heads)]
        found += [(run, float(value)) for value in part[column]]
    return Series([value for _, value in found], index=[run for run, _ in found], dtype=float)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about heads near recall models, their curves, answers, and controls."""
    language, toys = table[table.part == "language"], table[table.part == "toy"]
    yield from about_distances(language)
    yield from about_ranks(language)
    yield from about_curves(language, toys)
    yield from about_answers(language)
    yield from about_silencing(language)
    yield from about_controls(table)


def about_distances(table: DataFrame) -> Iterator[Claim]:
    """Claims about how many heads are near a recall model, and how many would be by chance."""
    liked = [bound("heads that are like recall", of_chosen(table, "like recall"), of="share of", at_least=1)]
    far, claim = of_chosen(table, "distance", "high"), partial(told, Evidence(table, CMR, source="paper"))
    yield claim("induction_heads_recall", far, "upper end of the CMR distance", below=NEAR, also=liked)
    what = "lower end of the difference of shares"
    for id, control in (("more_than_shuffled", "shuffled"), ("more_than_from_unrelated_places", "unrelated")):
        low = of(table, "share like recall: all heads", f"beyond {control}", "low")
        yield told(Evidence(table, "control"), id, low, what, above=0)
    low = of(table, "share near: heads that do not copy", "beyond shuffled", "low")
    yield told(Evidence(table, CMR), "others_are_at_the_floor", low, what, at_most=0)


def about_ranks(table: DataFrame) -> Iterator[Claim]:
    """Claims about nearness to recall and matching scores on other sequences."""
    shuffled = of(table, "ranks", "shuffled").groupby(level=0).max()
    low, others, again = (of(table, "ranks", name, "low") for name in RANKED)
    claim, what = partial(told, Evidence(table, CMR)), "lower end of the rank correlation"
    also = [bound("distance of it from the highest with lags shuffled", low - shuffled, above=0)]
    yield claim("ranks_with_matching", low, what, above=0, also=also)
    yield claim("ranks_among_others", others, what, above=0)
    yield claim("ranks_again", again, what, above=RELIABLE)


def about_curves(table: DataFrame, toys: DataFrame) -> Iterator[Claim]:
    """Claims about the curves of the eight heads with the highest matching scores."""
    forward = of_chosen(table, "asymmetry", "low")
    claim = partial(told, Evidence(table, CMR, source="paper"))
    yield claim("they_lean_forward", forward, "lower end of the difference", above=0)
    for id, kind in (("drift_fits_better_than_chaining", "drift"), ("attention_falls_off", "falling off")):
        met, what = of_chosen(table, kind, "low") > 0, "heads whose lower end is above 0"
        yield told(Evidence(table, CMR), id, met, what, of="share of", at_least=0.5)
    apart = of(toys, "distance").median() - of_chosen(table, "distance").median()
    both = Evidence(pandas.concat([table, toys]), "beside the toy models")
    yield told(both, "nearer_in_the_toy", apart, "difference of the medians", below=0)


def about_answers(table: DataFrame) -> Iterator[Claim]:
    """Claims about answers on a list that is shown again in another order."""
    claim = partial(told, Evidence(table, EMERGENCE))
    contiguity, asymmetry = (of(table, kind, "whole", "low") for kind in ("contiguity", "asymmetry"))
    yield claim("answers_are_contiguous", contiguity, "lower end of contiguity", above=CONTIGUOUS)
    yield claim("answers_lean_forward", asymmetry, "lower end of asymmetry", above=0)


def about_silencing(table: DataFrame) -> Iterator[Claim]:
    """Claims about which heads contiguity needs."""
    for id, control, name in (
        ("contiguity_needs_the_heads", "random", "matching"),
        ("more_than_the_same_layers", "same layers", "matching"),
        ("contiguity_needs_heads_like_recall", "random", "recall"),
    ):
        low = of(table, f"beyond the worst {control}: contiguity", name, "low")
        yield told(Evidence(table, EMERGENCE), id, low, "lower end of the difference of shares", above=0)
    left = of(table, "left: contiguity", "matching", "high")
    toy = Evidence(table, EMERGENCE, source="the toy study")
    yield told(toy, "as_gone_as_in_the_toy", left, "upper end of the share left", at_most=GONE)


def about_controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims: random curves, the hand-set model, and untrained models."""
    language, hand, idle = (table[table.part == part] for part in ("language", "by hand", "untrained"))
    shares, few = pandas.concat([of(language, "chance", name) for name in RANDOM]), between(0.01, 0.1)
    yield told(Evidence(language, "control"), "random_curves_are_near", shares, "share of random curves", within=few)
    also = [
        bound("heads that are like recall", of_chosen(hand, "like recall"), of="share of", at_least=1),
        bound("share left", of(hand, "left: contiguity", "matching"), below=GONE),
    ]
    far, claim = of_chosen(hand, "distance", "high"), partial(told, Evidence(hand, CONTROL))
    yield claim("by_hand", far, "upper end of the CMR distance", below=0.02, also=also)
    claim, high = partial(told, Evidence(idle, CONTROL)), of(idle, "share like recall: all heads", "heads", "high")
    yield claim("untrained_heads_do_not", high, "upper end of the share of heads", below=RARE)
    yield from above_untrained(language, idle)
    yield claim("untrained_is_flat", of(idle, "contiguity", "whole"), "contiguity", within=between(0.8, 1.25))


def above_untrained(language: DataFrame, idle: DataFrame) -> Iterator[Claim]:
    """Claims that more heads are like recall than in untrained models, by the paper's criterion and by ours."""
    for id, which in (("more_near_than_untrained", "near"), ("more_like_recall_than_untrained", "like recall")):
        kind = f"share {which}: all heads"
        shares, floor = of(language, kind, "heads", "low"), of(idle, kind, "heads", "high").max()
        yield told(Evidence(language, CONTROL), id, shares - floor, "difference of the ends", above=0)
