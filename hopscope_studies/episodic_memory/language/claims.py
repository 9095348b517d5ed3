"""The claims of `episodic_memory_llm`, judged on sequences that were not used to choose anything."""

from __future__ import annotations

from collections.abc import Iterator

import pandas
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, between, bound
from hopscope.experiments.reports import of
from hopscope_studies.episodic_memory.claims import CMR, CONTIGUOUS, COPIES, EMERGENCE
from hopscope_studies.episodic_memory.fit import NEAR

RELIABLE = 0.5  # rank correlation of two halves (ours)
GONE = 0.1  # share of contiguity left (the toy study's bound)
RARE = 0.1  # share of heads (ours)
CONTROL = "control (ours)"


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
    like = of_chosen(table, "like recall")
    yield Evidence(table, CMR, source="paper").claim(
        "induction_heads_recall",
        "The eight heads with the highest induction scores on one half of the sequences attend by lag on the other "
        "half like the CMR model of human recall, and prefer lag +1 (the paper reports this of induction heads).",
        of_chosen(table, "distance", "high"),
        "upper end of the CMR distance",
        below=NEAR,
        also=[bound("heads that are like recall", like, of="share of", at_least=1)],
    )
    for id, control, words in (
        ("more_than_shuffled", "shuffled", "would do so with their lags shuffled"),
        ("more_than_from_unrelated_places", "unrelated", "would do so with lags counted from unrelated places"),
    ):
        yield Evidence(table, "control").claim(
            id,
            f"More heads attend by lag like the CMR model of human recall (by our stricter criterion) than {words}.",
            of(table, "share like recall: all heads", f"beyond {control}", "low"),
            "lower end of the difference of shares",
            above=0,
        )
    quiet = "share near: heads that do not copy"
    yield Evidence(table, CMR).claim(
        "others_are_at_the_floor",
        f"Heads that do not copy (attention at lag +1 below {COPIES:g}) attend by lag like the CMR model of human "
        "recall no more often than they would with their lags shuffled (by the paper's criterion).",
        of(table, quiet, "beyond shuffled", "low"),
        "lower end of the difference of shares",
        at_most=0,
    )


def about_ranks(table: DataFrame) -> Iterator[Claim]:
    """Claims about nearness to recall and matching scores on other sequences."""
    evidence = Evidence(table, CMR)
    shuffled = of(table, "ranks", "shuffled").groupby(level=0).max()
    low = of(table, "ranks", "matching", "low")
    yield evidence.claim(
        "ranks_with_matching",
        "The higher a head's induction score, the nearer its attention by lag is to the CMR model of human recall: the "
        "rank correlation is above 0 and above that with lags shuffled.",
        low,
        "lower end of the rank correlation",
        above=0,
        also=[bound("distance of it from the highest with lags shuffled", low - shuffled, above=0)],
    )
    yield evidence.claim(
        "ranks_among_others",
        f"Even among heads with an induction score below {COPIES:g}, the attention by lag of those with higher scores "
        "is nearer to the CMR model of human recall.",
        of(table, "ranks", "matching: heads that do not copy", "low"),
        "lower end of the rank correlation",
        above=0,
    )
    yield evidence.claim(
        "ranks_again",
        "Distances from the CMR model of human recall put the heads in much the same order on both halves of the "
        "sequences (rank correlation).",
        of(table, "ranks", "both halves", "low"),
        "lower end of the rank correlation",
        above=RELIABLE,
    )


def about_curves(table: DataFrame, toys: DataFrame) -> Iterator[Claim]:
    """Claims about the curves of the eight heads with the highest matching scores."""
    yield Evidence(table, CMR, source="paper").claim(
        "they_lean_forward",
        "Each of the eight heads with the highest induction scores attends more to lag +1, the token after the earlier "
        "occurrence, than to lag −1.",
        of_chosen(table, "asymmetry", "low"),
        "lower end of the difference",
        above=0,
    )
    yield Evidence(table, CMR).claim(
        "drift_fits_better_than_chaining",
        "At least half of the eight heads with the highest induction scores are fitted better by a model of recall "
        "with a gradually drifting context than by attention at lag +1 alone (paper: so are heads of language models).",
        of_chosen(table, "drift", "low") > 0,
        "heads whose lower end is above 0",
        of="share of",
        at_least=0.5,
    )
    yield Evidence(table, CMR).claim(
        "attention_falls_off",
        "At least half of the eight heads with the highest induction scores attend more to lag +2, two tokens after "
        "the earlier occurrence, than to lags 4 to 8.",
        of_chosen(table, "falling off", "low") > 0,
        "heads whose lower end is above 0",
        of="share of",
        at_least=0.5,
    )
    far, near = of_chosen(table, "distance").median(), of(toys, "distance")
    yield Evidence(pandas.concat([table, toys]), "beside the toy models").claim(
        "nearer_in_the_toy",
        "The attention by lag of the toy models' copying heads is nearer to the CMR model of human recall than that of "
        "the language model's eight heads with the highest induction scores.",
        near.median() - far,
        "difference of the medians",
        below=0,
    )


def about_answers(table: DataFrame) -> Iterator[Claim]:
    """Claims about answers on a list that is shown again in another order."""
    yield Evidence(table, EMERGENCE).claim(
        "answers_are_contiguous",
        "After a token of a list shown before, the model mostly answers with the token that followed it (contiguity: "
        "probability of recall at lag +1 over the mean at lags 2 to 5).",
        of(table, "contiguity", "whole", "low"),
        "lower end of contiguity",
        above=CONTIGUOUS,
    )
    yield Evidence(table, EMERGENCE).claim(
        "answers_lean_forward",
        "After a token of a list shown before, the model recalls the next token rather than the previous one.",
        of(table, "asymmetry", "whole", "low"),
        "lower end of asymmetry",
        above=0,
    )


def about_silencing(table: DataFrame) -> Iterator[Claim]:
    """Claims about which heads contiguity needs."""
    evidence = Evidence(table, EMERGENCE)
    for id, control, name, words in (
        ("contiguity_needs_the_heads", "random", "matching", "Ablating the eight heads with the highest induction "
         "scores leaves less of the tendency to recall lists in order (contiguity) than ablating any of ten random "
         "sets."),
        ("more_than_the_same_layers", "same layers", "matching", "Ablating the eight heads with the highest induction "
         "scores leaves less of the tendency to recall lists in order (contiguity) than ablating any of ten sets of "
         "eight heads of the same layers."),
        ("contiguity_needs_heads_like_recall", "random", "recall", "Ablating the eight heads whose attention by lag is "
         "nearest to the CMR model of human recall leaves less of the tendency to recall lists in order (contiguity) "
         "than ablating any of ten random sets (paper: so it is for the in-context learning score)."),
    ):  # fmt: skip
        yield evidence.claim(
            id,
            words,
            of(table, f"beyond the worst {control}: contiguity", name, "low"),
            "lower end of the difference of shares",
            above=0,
        )
    yield Evidence(table, EMERGENCE, source="the toy study").claim(
        "as_gone_as_in_the_toy",
        "With the eight heads of the highest induction scores ablated, the model no longer recalls a list in order, as "
        "is so for toy models without their copying heads.",
        of(table, "left: contiguity", "matching", "high"),
        "upper end of the share left",
        at_most=GONE,
    )


def about_controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims: random curves, the hand-set model, and untrained models."""
    language, hand, idle = (table[table.part == part] for part in ("language", "by hand", "untrained"))
    shares = pandas.concat([of(language, "chance", name) for name in ("even near", "exponential near")])
    yield Evidence(language, "control").claim(
        "random_curves_are_near",
        "Control: by the paper's criterion, a few per cent of random curves resemble the CMR model of human recall.",
        shares,
        "share of random curves",
        within=between(0.01, 0.1),
    )
    yield Evidence(hand, CONTROL).claim(
        "by_hand",
        "Control: in a model with hand-set weights the copying head attends by lag exactly like the CMR model of human "
        "recall, and without this head all items are recalled equally often.",
        of_chosen(hand, "distance", "high"),
        "upper end of the CMR distance",
        below=0.02,
        also=[
            bound("heads that are like recall", of_chosen(hand, "like recall"), of="share of", at_least=1),
            bound("share left", of(hand, "left: contiguity", "matching"), below=GONE),
        ],
    )
    yield Evidence(idle, CONTROL).claim(
        "untrained_heads_do_not",
        "Control: at initial weights hardly any head attends like the CMR model of recall (by our stricter criterion).",
        of(idle, "share like recall: all heads", "heads", "high"),
        "upper end of the share of heads",
        below=RARE,
    )
    yield from above_untrained(language, idle)
    yield Evidence(idle, CONTROL).claim(
        "untrained_is_flat",
        "Control: at initial weights the model recalls a list's tokens equally often at all lags.",
        of(idle, "contiguity", "whole"),
        "contiguity",
        within=between(0.8, 1.25),
    )


def above_untrained(language: DataFrame, idle: DataFrame) -> Iterator[Claim]:
    """Claims that more heads are like recall than in untrained models, by the paper's criterion and by ours."""
    for id, which, words in (
        ("more_near_than_untrained", "near", "by the paper's criterion"),
        ("more_like_recall_than_untrained", "like recall", "by our stricter criterion"),
    ):
        kind = f"share {which}: all heads"
        shares, floor = of(language, kind, "heads", "low"), of(idle, kind, "heads", "high").max()
        yield Evidence(language, CONTROL).claim(
            id,
            f"More heads attend by lag like the CMR model of human recall ({words}) than at initial weights (the 95 % "
            "intervals do not overlap).",
            shares - floor,
            "difference of the ends",
            above=0,
        )
