"""The claims of `induction_clamps`, from its table alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.long_table import learnt, values
from hopscope.experiments.values import ratios

#: Which clamp is faster than which, with the paper's numbers in millions of sequences (section 5).
ORDER = {
    "previous_token_is_faster": (
        "previous",
        "none",
        "The phase change comes sooner if a head of layer 0 is clamped to attend to the previous token than without a "
        "clamp (paper: after .17 against .25 to .3 million sequences).",
    ),
    "perfect_layer_is_faster_still": (
        "perfect",
        "previous",
        "The phase change comes sooner if layer 0 is replaced by its ideal than if one of its heads is clamped to "
        "attend to the previous token (paper: after .06 against .17 million sequences).",
    ),
    "copying_is_faster_than_layer_0": (
        "copy",
        "perfect",
        "The phase change comes sooner if layer 1's copying is given (its attention is taken as the answer) than if "
        "layer 0 is replaced by its ideal (paper: after .03 against .06 million sequences).",
    ),
    "matching_is_fastest": (
        "match",
        "copy",
        "The phase change comes sooner if layer 1's matching is given (it attends to the right label) than if its "
        "copying is given (its attention is taken as the answer; paper: after .02 against .03 million sequences).",
    ),
}


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the order of learning times, about layer 0, and about the toy model."""
    for id, (one, other, sentence) in ORDER.items():
        pairs = table[table.condition == one]  # n: a run and its pair count once
        yield Evidence(pairs, "5", source="paper", among=table).claim(
            id,
            sentence,
            ratios(learnt(table, one), learnt(table, other)),
            "time over time",
            below=1,
            of="median",
        )
    yield from first_layer(table)
    yield from toy(table)


def first_layer(table: DataFrame) -> Iterator[Claim]:
    """Claims that there is no phase change without layer 0, and that its effect on patterns is enough."""
    rows = values(table, "silent", "learnt")
    yield Evidence(rows, "ours", among=table).claim(
        "no_layer_0_no_change",
        "If layer 0 is ablated throughout training, there is no phase change within the steps of the run.",
        learnt(table, "silent") < math.inf,
        "runs that change",
        at_most=0,
        of="share of",
    )
    rows = values(table, "patterns", "learnt")
    yield Evidence(rows, "ours", among=table).claim(
        "patterns_are_all_it_is_for",
        "If only the attention patterns of layer 1 depend on layer 0's output, and its values do not, every run still "
        "has its phase change.",
        learnt(table, "patterns") < math.inf,
        "runs that change",
        at_least=1,
        of="share of",
    )


def toy(table: DataFrame) -> Iterator[Claim]:
    """Claims that the product is learnt sooner the more vectors are clamped; for two, by the closed form."""
    rows = values(table, "toy", "toy")
    medians = [middle(rows[rows.name == name].value) for name in ("none", "c", "bc")]
    yield Evidence(rows, "5", source="paper", among=table).claim(
        "toy_order",
        "In a toy model, a product of three vectors, the more are clamped at their targets, the sooner the loss "
        "halves.",
        [later / sooner for sooner, later in itertools.pairwise(medians)],
        "median over the median with one less",
        below=1,
    )
    both = rows[rows.name == "bc"].set_index("run").value
    closed = values(table, "toy", "closed").set_index("run").value
    yield Evidence(rows, "ours", among=table).claim(
        "toy_closed_form",
        "In a toy model, a product of three vectors of which two are clamped at their targets, the number of steps "
        "until the loss is halved equals the closed form.",
        (both - closed).abs(),
        "difference in steps",
        at_most=0,
        also=[bound("steps known", float(both.notna().sum()), above=0)],
    )


def middle(steps: Series) -> float:
    """The median, with NaN counted as never (∞); NaN without any value."""
    return float(steps.fillna(math.inf).median()) if len(steps) else math.nan
