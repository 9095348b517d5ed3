"""The claims of `context_or_weights`, from its table alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.long_table import values
from hopscope_studies.abrupt_learning.cells import TRADE


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about classes, bursts and noise, and about the trade-off between the two ways of answering."""
    yield from by_data(table)
    every = [name for name in TRADE if len(values(table, name, "accuracy", "IC"))]
    yield Evidence(table[table.condition.isin(every)], "2", among=table).claim(
        "one_at_the_cost_of_the_other",
        "Over all runs, the more accurately a model classifies new classes from the context, the less accurately it "
        "recalls known classes that the context does not show.",
        [correlation(table, every)],
        "correlation",
        below=-0.5,
        of="median",
    )
    yield Evidence(table[table.condition == "many"], "2", among=table).claim(
        "untouched_by_labels_known",
        "With 2,048 classes the model follows the context rather than its weights: known classes that the context "
        "shows with other labels mostly get the label shown.",
        by_seed(table, "many", "IC2"),
        "accuracy",
        above=0.5,
        of="median",
    )


def by_data(table: DataFrame) -> Iterator[Claim]:
    """Claims about which way of answering more classes, bursts and noise favour."""
    for id, test, without, having, least, sentence in (
        ("more_classes_favour_the_context", "IC", "few", "many", 0.2,
         "Models trained on 2,048 classes classify new classes correctly more often than models trained on 64 (paper: "
         "more classes favour the context)."),
        ("few_classes_favour_the_weights", "IW", "many", "few", 0.1,
         "Models trained on 64 classes more often recall the labels of known classes that the context does not show "
         "than models trained on 2,048 do."),
        ("bursts_favour_the_context", "IC", "single", "burst", 0,
         "New classes are classified correctly more often if training sequences show one class four times than if they "
         "show four classes once each (paper: such bursts favour the context)."),
        ("noise_favours_the_context", "IC", "few", "noise", 0,
         "New classes are classified correctly more often if items of one class vary more in training (paper: noise "
         "within classes favours the context)."),
    ):  # fmt: skip
        evidence = Evidence(table[table.condition == having], "2", among=table)  # n: a run and its pair count once
        numbers = gained(table, test, without, having)
        yield evidence.claim(id, sentence, numbers, "accuracy gained", above=least, of="median")


def by_seed(table: DataFrame, condition: str, test: str) -> Series:
    """A test's accuracy, by seed."""
    return values(table, condition, "accuracy", test).set_index("seed").value


def gained(table: DataFrame, test: str, without: str, having: str) -> Series:
    """The gain in a test's accuracy from one condition to another, for each seed that both have."""
    return (by_seed(table, having, test) - by_seed(table, without, test)).dropna()


def correlation(table: DataFrame, conditions: list[str]) -> float:
    """Correlation of the accuracies IC and IW over all runs; NaN for fewer than three runs."""
    pairs = [(by_seed(table, name, "IC"), by_seed(table, name, "IW")) for name in conditions]
    known = [(a[seed], b[seed]) for a, b in pairs for seed in a.index.intersection(b.index)]
    return float(numpy.corrcoef(numpy.array(known).T)[0, 1]) if len(known) > 2 else float("nan")
