"""The claims of `abrupt_learning`, from its table alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, between, bound
from hopscope.experiments.long_table import learnt, values

BY_HAND = "by hand"
PAIRS = 4
SOME_LABEL = 0.8  # share of answers that name a label of the context: what the slow phase learns (ours)
HALF = 0.5


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims: the course of learning, as many labels as pairs, the nested logits, and controls."""
    yield from course(table)
    yield from even(table)
    yield from nested(table)
    yield from controls(table)


def course(table: DataFrame) -> Iterator[Claim]:
    """Claims about the course of learning: what is learnt first, and when the rest is."""
    right = values(table, "context", "right")
    yield Evidence(right, "3").claim(
        "a_label_of_the_context_first",
        "At first the model only learns to answer with some label of the context: when 80 % of its answers are such "
        "labels, fewer than half of all answers are right (paper: the model picks one of the N labels at random).",
        first_accuracies(table),
        "accuracy when 0.8 of the answers are labels of the context",
        below=HALF,
    )
    losses = values(table, "context", "loss", "validation")
    yield Evidence(losses, "3").claim(
        "it_ends_abruptly",
        "The loss falls from three quarters to one quarter of ln N, the loss of a guess among the context's N labels, "
        "in less time than training had taken until then.",
        curves(losses).map(fall),
        "time of the fall over the time before it",
        below=1,
        of="median",
    )
    yield Evidence(losses, "3").claim(
        "the_head_forms_at_the_change",
        "The induction head forms as the loss falls: the query's attention to the right label passes one half at about "
        "the step at which the task is learnt.",
        head_times(table),
        "time of the head over time of the loss",
        within=between(0.6, 1.4),
        of="median",
    )
    ic = values(table, "context", "accuracy", "IC")
    others = values(table, "context", "accuracy", "patterns of others")
    yield Evidence(ic, "2").claim(
        "it_reads_the_context",
        "The model classifies items of new classes correctly, but not if layer 1's attention pattern is replaced by "
        "that of another sequence.",
        ic.value,
        "accuracy on new classes",
        at_least=0.9,
        of="median",
        also=[bound("accuracy under patterns of others", others.value, below=HALF)],
    )


def curves(rows: DataFrame) -> Series:
    """By run, its values by step."""
    found = {run: part.sort_values("step").set_index("step").value for run, part in rows.groupby("run")}
    return Series(found, dtype=object).rename_axis("run")


def first(curve: Series, met: Callable[[float], bool]) -> float:
    """The first step whose value meets a condition; NaN if there is none."""
    found = (float(step) for step, value in zip(curve.index.tolist(), curve.tolist(), strict=True) if met(value))
    return next(found, math.nan)


def first_accuracies(table: DataFrame) -> Series:
    """By run, the accuracy at the first step at which most answers are labels of the context."""
    named = curves(values(table, "context", "seen", "CLA"))
    steps = named.map(lambda curve: first(curve, lambda share: share >= SOME_LABEL))
    return steps.combine(curves(values(table, "context", "right")), lambda step, curve: curve.get(step, math.nan))


def fall(losses: Series) -> float:
    """The steps in which the loss falls from 3/4 to 1/4 of ln N, divided by the number of steps before that."""
    began = first(losses, lambda loss: loss < 0.75 * math.log(PAIRS))
    return (first(losses, lambda loss: loss < 0.25 * math.log(PAIRS)) - began) / began if began else math.nan


def head_times(table: DataFrame) -> Series:
    """By seed, the step at which the query's attention to its label passes one half, over the step of learning."""
    heads = values(table, "context", "seen", "TILA2").groupby("seed")
    steps = {seed: first(curves(head).iloc[0], lambda share: share > HALF) for seed, head in heads}
    return Series(steps, dtype=float).rename_axis("seed") / learnt(table, "context")


def even(table: DataFrame) -> Iterator[Claim]:
    """Claims about as many labels as pairs: plain SGD stays at ln N; Adam does not, nor does SGD if labels repeat."""
    rows = values(table, "even", "loss", "validation")
    yield Evidence(rows, "4", among=table).claim(
        "even_stays",
        "With as many labels as the N pairs of a sequence, all different, the loss of a model trained with plain SGD "
        "stays at ln N, that of a guess (paper: no seed learns the task).",
        curves(rows).map(lambda losses: losses.iloc[-1]) / math.log(PAIRS),
        "loss at the end over ln N",
        above=0.98,
    )
    for id, condition, sentence in (
        (
            "adam_leaves_even",
            "even, Adam",
            "With as many labels as pairs, all different in every sequence, Adam learns the task in every run.",
        ),
        (
            "repeats_leave_even",
            "repeats",
            "With as many labels as pairs, plain SGD learns the task in every run if labels may repeat in a sequence.",
        ),
    ):
        yield Evidence(values(table, condition, "learnt"), "ours", among=table).claim(
            id,
            sentence,
            learnt(table, condition) < math.inf,
            "runs that learn",
            at_least=1,
            of="share of",
        )


def nested(table: DataFrame) -> Iterator[Claim]:
    """Claims about the model of three nested logits, by number of labels L."""
    rows = values(table, "nested", "loss")
    more = [first(course_of(rows, labels) / math.log(labels), lambda loss: loss < 0.1) for labels in (16, 32)]
    yield Evidence(rows, "4", among=table).claim(
        "nested_logits_change",
        "With more labels (L) than pairs, the loss of a three-parameter model of the circuit (nested logits) falls "
        "below a tenth of ln L between steps 100 and 250.",
        more,
        "first step with a loss below a tenth of ln L",
        within=between(100, 250),
    )
    flat = course_of(rows, 8)
    yield Evidence(rows, "4", among=table).claim(
        "nested_logits_wait",
        "With as many labels as pairs (L = N), the loss of a three-parameter model of the circuit (nested logits) "
        "stays at ln N for a thousand steps, because the initial slope, 1/N − 1/L, is 0.",
        flat[flat.index <= 1000] / math.log(8),
        "loss over ln N in the first 1,000 steps",
        above=0.99,
    )


def course_of(rows: DataFrame, labels: int) -> Series:
    """The loss of the nested logits with this number of labels, by step."""
    return rows[rows.name.astype(str) == str(labels)].sort_values("step").set_index("step").value


def controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims: the hand-set circuit, and models before training."""
    hand = values(table, BY_HAND, "accuracy", "IC")
    measures = values(table, BY_HAND, "final")
    yield Evidence(hand, "ours", among=table).claim(
        "by_hand",
        "Control: in a model with hand-set weights, which classifies new classes correctly, the circuit's attention "
        "weights are 1, and every answer is a label of the context.",
        hand.value,
        "accuracy on new classes",
        also=[bound("progress measure", measures.value, at_least=0.99)],
        at_least=0.99,
    )
    start = values(table[table.step == 0], "context", "seen", "TILA2")
    yield Evidence(start, "3").claim(
        "untrained",
        "Control: before training the query attends to the right label no more than to others.",
        start.value,
        "attention to the right label",
        below=0.3,
    )
