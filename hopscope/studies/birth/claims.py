"""The claims of `birth`: sentences of the paper and of Bietti's talk on it, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Claim, bound, judge
from hopscope.studies.birth.models.basic_transformer import TRAINED

HALF, SOLVED = 0.5, 0.9  # recall at which a memory counts as there; accuracy at which a model has learnt (ours)


def last(table: DataFrame, model: str, quantity: str) -> Series:
    """A quantity at the end of each run of a model, by seed."""
    rows = table[(table.model == model) & (table.quantity == quantity)].sort_values("step")
    return rows.groupby("seed").value.last()


def reached(table: DataFrame, model: str, quantity: str, level: float) -> Series:
    """The step at which a quantity first reaches a level, on straight lines between rows, by seed; inf if never."""
    rows = table[(table.model == model) & (table.quantity == quantity)].sort_values("step")
    found = {seed: crossing(run.step.tolist(), (-run.value).tolist(), -level) for seed, run in rows.groupby("seed")}
    return Series(found, dtype=float).fillna(float("inf"))


def about(
    name: str, sentence: str, values: Series, what: str, table: DataFrame, model: str, section: str = "", **more: Any
) -> Claim:
    """A claim about the runs of a model; its number is their mean."""
    told: dict[str, Any] = {"number": more.get("of", "mean"), "source": "ours", **more}
    rows, section = table[table.model == model], f"Bietti et al. (2023){section}"
    return judge(name, sentence, values, what, section=section, rows=rows, among=table, n=len(values), **told)


def claims(table: DataFrame) -> Iterator[Claim]:
    """The talk's sentences, and the paper's."""
    yield from about_depth(table)
    yield from about_order(table)
    yield from about_joint(table)
    yield from about_steps(table)
    yield about_circuit(table)


def about_depth(table: DataFrame) -> Iterator[Claim]:
    """One layer fails, two succeed."""
    yield about(
        "one_layer_fails",
        "A transformer of one layer predicts about 55 % of the outputs in context.",
        last(table, "1 layer", "report"),
        "accuracy",
        table,
        "1 layer",
        below=0.75,
        source="ours; paper: about 0.55",
    )
    yield about(
        "two_layers_succeed",
        "A transformer of two layers predicts about 99 % of them.",
        last(table, "2 layers", "report"),
        "accuracy",
        table,
        "2 layers",
        above=0.97,
        source="ours; paper: about 0.99",
    )
    yield about(
        "basic_model_succeeds",
        "So does the basic model, of which three matrices are trained among frozen random embeddings.",
        last(table, "basic", "accuracy"),
        "accuracy",
        table,
        "basic",
        above=SOLVED,
    )


def about_order(table: DataFrame) -> Iterator[Claim]:
    """Which memory forms first, of fixed triggers and of drawn ones."""
    for model, name in (("basic", "memories_in_order"), ("basic drawn", "memories_in_order_drawn")):
        o2, k2, k1 = (reached(table, model, memory, HALF) for memory in ("W_O2", "W_K2", "W_K1 first"))
        words = f"medians {o2.median():.0f}, {k2.median():.0f}, {k1.median():.0f}"
        triggers = "the most frequent characters" if model == "basic" else "drawn anew for each sequence"
        yield about(
            name,
            f"Trained at once, memories form in the order W_O², W_K², W_K¹ (triggers: {triggers}; {words}).",
            (o2 < k2) & (k2 < k1),
            f"runs in which recalls reach {HALF} in this order",
            table,
            model,
            of="share of",
            equals=1,
        )


def about_joint(table: DataFrame) -> Iterator[Claim]:
    """At once against one after the other, whose stages are not charged for being longer than they must."""
    first, second, learnt = (
        reached(table, "basic staged", quantity, level)
        for quantity, level in (("W_O2", HALF), ("W_K2", HALF), ("accuracy", SOLVED))
    )
    stage = last(table, "basic staged", "stage")
    tight = first + (second - stage).clip(lower=0) + (learnt - 2 * stage).clip(lower=0)
    for name, quantity, level, staged, sentence in (
        (
            "joint_learning_is_faster",
            "accuracy",
            SOLVED,
            tight,
            "Trained at once the basic model learns sooner than trained in stages, from the top down, "
            f"though each stage count only until its memory's recall is {HALF}",
        ),
        (
            "first_memory_is_faster_jointly",
            "W_O2",
            HALF,
            first,
            "Even W_O² is learnt sooner beside the others than in its stage, alone",
        ),
    ):
        joint = reached(table, "basic", quantity, level)
        yield about(
            name,
            f"{sentence} (medians {joint.median():.0f} and {staged.median():.0f} steps).",
            (staged / joint).dropna(),
            f"ratio of steps until {quantity} is {level}, staged to joint",
            table,
            "basic",
            above=1,
        )


def about_steps(table: DataFrame) -> Iterator[Claim]:
    """One gradient step each: in the simplified setup, and with the whole gradients."""
    for model, name, words in (
        ("three steps", "three_steps_suffice", "each matrix moved in its memory's block"),
        ("three whole steps", "three_whole_steps", "whole gradients"),
    ):
        recalled, accuracy = [last(table, model, memory) for memory in TRAINED], last(table, model, "accuracy")
        words += f"; recalls {', '.join(f'{r.mean():.2f}' for r in recalled)}, accuracy {accuracy.mean():.2f}"
        yield about(
            name,
            f"One gradient step on the population loss for each of W_O², W_K², W_K¹ in turn suffices ({words}).",
            DataFrame(recalled).min(),
            "recall of the three memories",
            table,
            model,
            ", theorem (informal)",
            above=SOLVED,
            also=[bound("accuracy", accuracy, above=SOLVED)],
        )


def about_circuit(table: DataFrame) -> Claim:
    """What circuit discovery finds in the transformers of two layers."""
    accepted = last(table, "2 layers", "circuit accepted")
    before, copy = (last(table, "2 layers", f"circuit {kind} paths") for kind in ("previous-token", "induction"))
    return about(
        "circuit_is_an_induction_head",
        "In two layers discovery finds a circuit with a path from an output to its trigger before it, and one from a "
        "later trigger to that output.",
        (accepted > 0) & (before > 0) & (copy > 0),
        "runs with such a circuit",
        table,
        "2 layers",
        of="share of",
        equals=1,
    )
