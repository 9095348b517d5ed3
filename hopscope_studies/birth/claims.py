"""The claims of `birth`: statements of the paper and of Bietti's talk, judged from the table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.curves import crossing
from hopscope.experiments.judging import Claim, around, bound
from hopscope.experiments.quantities import Quantities
from hopscope_studies.birth.models.basic_transformer import TRAINED

PAPER = "Bietti et al. (2023)"
HALF, SOLVED = 0.5, 0.9  # recall at which a memory counts as formed; accuracy at which a model has learnt (ours)
CHARACTERS, TRIGGERS, PLACES = 65, 5, 63  # items of the probes: of W_O2, of W_K2 with fixed triggers, of W_K1 first


def told_of(table: DataFrame) -> Quantities:
    """The table's quantities, with models as kinds."""
    return Quantities(table.rename(columns={"model": "kind"}), PAPER)


def reached(told: Quantities, model: str, quantity: str, level: float) -> Series:
    """The step at which a quantity first reaches a level, linearly interpolated, by seed; inf if it never does."""
    runs = told.course(model, quantity).groupby("seed")
    found = {seed: crossing(run.step.tolist(), (-run.value).tolist(), -level) for seed, run in runs}
    return Series(found, dtype=float).rename_axis("seed").fillna(float("inf"))


def claims(table: DataFrame) -> Iterator[Claim]:
    """All claims, about statements of the talk and of the paper."""
    told = told_of(table)
    yield from about_depth(told)
    yield from about_order(told)
    yield from about_joint(told)
    yield from about_steps(told)
    yield about_circuit(told)


def about_depth(told: Quantities) -> Iterator[Claim]:
    """Claims that one layer fails and two layers succeed."""
    yield told.claim(
        "one_layer_fails",
        "A transformer of one layer predicts about 55 % of the outputs that are in the context.",
        told.of("1 layer", "report"),
        "accuracy",
        ("1 layer",),
        within=around(0.55, 0.03),
        source="ours; paper: about 0.55",
    )
    yield told.claim(
        "two_layers_succeed",
        "A transformer of two layers predicts about 99 % of the outputs that are in the context.",
        told.of("2 layers", "report"),
        "accuracy",
        ("2 layers",),
        above=0.97,
        source="ours; paper: about 0.99",
    )
    yield told.claim(
        "basic_model_succeeds",
        "The paper's basic model, in which three matrices are trained and random embeddings are frozen, predicts "
        "nearly all outputs that are in the context.",
        told.of("basic", "accuracy"),
        "accuracy",
        ("basic",),
        above=SOLVED,
    )


#: The models whose memories are judged by their order: the claim, and the setting in words.
ORDERS = {
    "published": ("memories_in_order", "with the published width, length, rate and steps"),
    "basic": ("memories_in_order_small", "with half the published width and length and a higher rate"),
    "basic drawn": ("memories_in_order_drawn", "with triggers drawn anew for each sequence"),
}


def halfway(items: int) -> float:
    """The recall halfway between chance, 1 / `items`, and 1."""
    return HALF + (1 - HALF) / items


def about_order(told: Quantities) -> Iterator[Claim]:
    """Claims about the order in which memories form, by chance-corrected recall; and about bigrams against context."""
    for model, (name, words) in ORDERS.items():
        tokens = CHARACTERS if model == "basic drawn" else TRIGGERS
        probes = {"W_O2": CHARACTERS, "W_K2": tokens, "W_K1 first": PLACES}
        o2, k2, k1 = (reached(told, model, memory, halfway(items)) for memory, items in probes.items())
        yield told.claim(
            name,
            "If the three matrices of an induction head are trained at once, their associative memories form in the "
            f"order W_O², W_K², W_K¹ ({words}).",
            (o2 < k2) & (k2 < k1),
            f"runs in which recalls, corrected for chance, reach {HALF} in this order",
            (model,),
            of="share of",
            equals=1,
        )
    yield from about_published(told)
    yield about_bigrams(told)


def about_published(told: Quantities) -> Iterator[Claim]:
    """Claims about the order if W_K2 has as many candidates as W_O2, and about the part of it that holds."""
    probes = {"W_O2": CHARACTERS, "W_K2 of all": CHARACTERS, "W_K1 first": PLACES}
    o2, k2, k1 = (reached(told, "published", memory, halfway(items)) for memory, items in probes.items())
    for name, sentence, found in (
        (
            "memories_in_order_of_all",
            "The associative memories of an induction head form in the order W_O², W_K², W_K¹ even if W_K² must tell a "
            "trigger from all other characters, and not only from the four other triggers.",
            (o2 < k2) & (k2 < k1),
        ),
        (
            "second_layer_first",
            "Both associative memories of layer 2 (W_O² and W_K²) form before that of layer 1 (W_K¹).",
            (o2 < k1) & (k2 < k1),
        ),
    ):
        yield told.claim(
            name,
            sentence,
            found,
            f"runs in which recalls, corrected for chance, reach {HALF} in this order",
            ("published",),
            of="share of",
            equals=1,
        )


def about_bigrams(told: Quantities) -> Claim:
    """Claims about models that predict all next characters, with a linear layer that can store bigrams."""
    start, names = math.log(CHARACTERS), {"bigram": "loss bigram", "context": "loss"}
    found: dict[str, dict[Any, float]] = {name: {} for name in names}
    for name, quantity in names.items():
        for seed, run in told.course("basic all", quantity).groupby("seed"):
            least = float(run.value.min()) if name == "bigram" else 0.0
            found[name][seed] = crossing(run.step.tolist(), run.value.tolist(), (start + least) / 2)
    bigram, context = (Series(found[name], dtype=float).rename_axis("seed") for name in names)
    return told.claim(
        "bigrams_before_context",
        "Global bigrams are learnt before outputs in context: the loss on bigrams is half-way to its lowest value "
        "before the loss on outputs in context is half-way to 0.",
        context.fillna(math.inf) - bigram,
        "number of steps by which bigrams are first",
        ("basic all",),
        of="median",
        also=[bound("number of these steps", context.fillna(math.inf) - bigram, above=0)],
        above=0,
    )


def about_joint(told: Quantities) -> Iterator[Claim]:
    """Claims about joint training against staged training; a stage counts only until its memory is learnt."""
    first, second, learnt = (
        reached(told, "basic staged", quantity, level)
        for quantity, level in (("W_O2", HALF), ("W_K2", HALF), ("accuracy", SOLVED))
    )
    stage = told.of("basic staged", "stage")
    tight = first + (second - stage).clip(lower=0) + (learnt - 2 * stage).clip(lower=0)
    for name, quantity, level, staged, sentence in (
        (
            "joint_learning_is_faster",
            "accuracy",
            SOLVED,
            tight,
            "The basic model reaches an accuracy of 0.9 in fewer steps if its three matrices are trained at once than "
            "if they are trained one after the other from the top down, even if each stage counts only until its "
            f"memory's recall is {HALF}.",
        ),
        (
            "first_memory_is_faster_jointly",
            "W_O2",
            HALF,
            first,
            "The first matrix of the stages, W_O², reaches a recall of 0.5 in fewer steps with the other two than "
            "alone.",
        ),
    ):
        joint = reached(told, "basic", quantity, level)
        yield told.claim(
            name,
            sentence,
            (staged / joint).dropna(),
            f"ratio of steps until {quantity} is {level}, staged to joint",
            ("basic",),
            above=1,
        )


def about_steps(told: Quantities) -> Iterator[Claim]:
    """Claims about one gradient step per matrix, within the memory's block or along the whole gradient."""
    for model, name, words in (
        ("three steps", "three_steps_suffice", "if each matrix changes only in the block that its memory needs"),
        ("three whole steps", "three_whole_steps", "if each matrix changes as a whole"),
    ):
        recalled, accuracy = [told.of(model, memory) for memory in TRAINED], told.of(model, "accuracy")
        yield told.claim(
            name,
            "One gradient step on the population loss for each of W_O², W_K², W_K¹ in turn suffices for an induction "
            f"head {words}.",
            DataFrame(recalled).min(),
            "recall of the three memories",
            (model,),
            section=f"{PAPER}, theorem (informal)",
            above=SOLVED,
            also=[bound("accuracy", accuracy, above=SOLVED)],
        )


def about_circuit(told: Quantities) -> Claim:
    """The claim about the circuits of two-layer transformers."""
    accepted = told.of("2 layers", "circuit accepted")
    before, copy = (told.of("2 layers", f"circuit {kind} paths") for kind in ("previous-token", "induction"))
    return told.claim(
        "circuit_is_an_induction_head",
        "In every two-layer model circuit discovery finds a circuit in which an output attends to the trigger before "
        "it, and a later trigger attends to that output.",
        (accepted > 0) & (before > 0) & (copy > 0),
        "runs with such a circuit",
        ("2 layers",),
        of="share of",
        equals=1,
    )
