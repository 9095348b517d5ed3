"""Claims on factual recall, from the table; what was chosen on some groups of facts is judged on others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, bound
from hopscope.experiments.reports import of

ENOUGH = 12  # facts that a sentence must elicit (ours)
MOST = 0.5  # share of what heads write along the subject (ours)
FEW = 0.1  # the same share for random heads; share of the variation in an MLP's output (ours)
LATE = 2 / 3  # share of the layers (ours)
OFTEN = 0.75  # share of the prompts (ours)


def beside(table: DataFrame, kind: str, start: str = "") -> Series:
    """The highest value of a kind among names with this prefix, by run."""
    rows = table[(table.kind == kind) & table.name.str.startswith(start)]
    return rows.groupby("run").value.max()


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about known facts, topic heads and their replacement, what adds the answer, the last layer, and controls.

    Findings of the toy study `facts` are among them.
    """
    language = table[table.part == "language"]
    parts = (about_knowledge, about_topic_heads, about_exchange, about_function, about_regression, about_the_last_layer)
    for claim in chain(*(about(language) for about in parts), about_toys(language)):
        yield replace(claim, n=1, seeds=claim.seeds[:1])  # all seeds ask the same prompts of the same weights
    yield from about_controls(table)


def about_knowledge(table: DataFrame) -> Iterator[Claim]:
    """Claims about how often the right word is the likeliest."""
    rows = table[table.kind == "right"]
    first = rows[rows.run == rows.run.min()]
    yield Evidence(rows, "3").claim(
        "enough_is_known",
        f"{' and '.join(sorted(set(table.model)))} knows at least a dozen facts for every prompt template: for "
        f"{first.value.sum():.0f} of {first.step.sum():.0f} prompts its likeliest next word is right.",
        rows.value,
        "number of facts that a sentence brings out",
        at_least=ENOUGH,
    )


def about_topic_heads(table: DataFrame) -> Iterator[Claim]:
    """Claims that a few heads write the subject at the last token."""
    evidence = Evidence(table, "4")
    chances = [table[(table.kind == "topic: share") & table.name.str.startswith(name)] for name in CONTROLS]
    yield evidence.claim(
        "ten_heads_write_the_topic",
        "Ten heads, called topic heads, write at least half of what all heads together write in the subject's "
        "direction at the last token, and ten random heads next to nothing.",
        of(table, "topic: share", "topic"),
        "share of what is written",
        at_least=MOST,
        also=[bound(f"share of {name} heads", some.value, below=FEW) for name, some in zip(CONTROLS, chances,
                                                                                           strict=True)],
    )  # fmt: skip
    yield evidence.claim(
        "they_write_the_subject_more_than_the_answer",
        "What topic heads write at the last token lies more in the subject's direction than in the answer's, with both "
        "directions fitted jointly.",
        of(table, "apart: heads", "subject over answer", "low"),
        "lower end of what is written along the subject beyond what is along the answer",
        above=0,
    )
    above = [of(table, "topic: looks", "topic", "low") - beside(table, "topic: looks", name) for name in CONTROLS]
    yield evidence.claim(
        "topic_heads_look_at_the_subject",
        "Topic heads (the ten that write the subject) attend to the subject more than any of ten random sets of heads, "
        "and of ten sets of heads of the same layers.",
        above[0],
        "lower end of attention above that of random heads",
        above=0,
        also=[bound("that above heads of the same layers", above[1], above=0)],
    )
    chosen = table[(table.kind == "chosen") & (table.name == "topic")].groupby("run").step.median()
    yield evidence.claim(
        "the_topic_comes_first",
        "The median layer of the topic heads (the ten that write the subject) is no later than that of the MLP that "
        "adds most to the answer.",
        of(table, "function", "layer") - chosen,
        "number of layers in between",
        at_least=0,
    )


CONTROLS = ("random", "same layers")


def about_exchange(table: DataFrame) -> Iterator[Claim]:
    """Claims about replacing the topic heads' outputs."""
    evidence = Evidence(table, "4")
    for id, kind, sentence in (
        (
            "topic_heads_are_needed",
            "lost",
            "Replacing the topic heads' outputs by their means over subjects lowers the answer's logit, measured "
            "against other answers of the relation, more than replacing those of any of ten random sets of heads, and "
            "of ten sets of the same layers.",
        ),
        (
            "topic_heads_carry_the_argument",
            "exchanged",
            "If the topic heads' outputs are taken from another subject's prompt, the answer moves further towards the "
            "other subject's answer than if those of any random set of heads are.",
        ),
        (
            "mlps_apply_it_to_the_argument",
            "by_mlps",
            "If the topic heads' outputs are taken from another subject's prompt, what MLPs add to the logits moves "
            "further towards the other subject's answer than if those of any random set of heads are.",
        ),
    ):
        ends = [of(table, f"beyond: {kind}", f"topic over {name}", "low") for name in CONTROLS]
        yield evidence.claim(
            id,
            sentence,
            ends[0],
            "lower end of the share beyond random heads",
            above=0,
            also=[bound("that beyond heads of the same layers", ends[1], above=0)],
        )


def about_function(table: DataFrame) -> Iterator[Claim]:
    """Claims that an MLP adds the answer."""
    layers = table[table.kind == "adds"].groupby("run").step.max() + 1
    where = of(table, "function", "layer")
    yield Evidence(table, "5").claim(
        "a_late_mlp_adds_the_answer",
        "The MLP that adds most to the answer's logit is in the last third of the layers, and adds more to it than to "
        "other subjects' answers (judged on other facts than those that chose it).",
        of(table, "function", "adds", "low"),
        "lower end of what it adds (nats)",
        above=0,
        also=[
            bound("place among the layers", (where + 1) / layers, above=LATE),
            bound("that end above what it adds to mixed answers",
                  of(table, "function", "adds", "low") - beside(table, "function: mixed"), above=0),
        ],
    )  # fmt: skip


def about_regression(table: DataFrame) -> Iterator[Claim]:
    """Claims about what explains the MLP's output."""
    evidence = Evidence(table, "5")
    mixed = table[table.kind == "regression: mixed"]
    yield evidence.claim(
        "the_answer_is_in_it",
        "If the output of the MLP that adds most to the answer is regressed on directions, the coefficient of the "
        "answer's direction is above 0 and above those with answers shuffled.",
        of(table, "regression: number", "answer", "low"),
        "lower end of the answer's number",
        above=0,
        also=[
            bound(
                "that above the highest with answers mixed",
                of(table, "regression: number", "answer", "low") - beside(mixed, "regression: mixed", "answer"),
                above=0,
            )
        ],
    )
    yield evidence.claim(
        "heads_explain_it",
        "A linear regression on heads' outputs and the rest of its input explains how the output of the MLP that adds "
        "most to the answer varies between subjects (R², on facts that were not fitted).",
        of(table, "regression", "read"),
        "R²",
        at_least=FEW,
        also=[
            bound(
                "lower end above the highest with facts mixed",
                of(table, "regression", "read", "low") - beside(mixed, "regression: mixed", "read"),
                above=0,
            )
        ],
    )
    yield from about_numbers(table)


def about_numbers(table: DataFrame) -> Iterator[Claim]:
    """Claims about the coefficients of the heads' outputs, and about the intercept."""
    evidence = Evidence(table, "5")
    heads = table[table.kind == "regression: head"]
    erased, amplified = ((heads[sign] * side > 0).groupby(heads.run).sum() for sign, side in (("high", -1), ("low", 1)))
    yield evidence.claim(
        "it_erases_and_amplifies",
        "The MLP that adds most to the answer erases what some topic heads wrote and amplifies what others wrote: the "
        "intervals of some regression coefficients lie below 0, and those of others above 0.",
        erased,
        "number of heads that are erased",
        at_least=1,
        also=[bound("number of heads that are amplified", amplified, at_least=1)],
    )
    yield evidence.claim(
        "the_intercept_points_to_the_kind",
        "In the regression of the output of the MLP that adds most to the answer, the intercept, which is the same for "
        "all subjects, adds more to answers of its relation than to those of other relations.",
        of(table, "intercept", "own kind", "low"),
        "lower end of what it adds (nats)",
        above=0,
    )


def about_the_last_layer(table: DataFrame) -> Iterator[Claim]:
    """Claims about whether the last layer suppresses the answer."""
    yield Evidence(table, "6", source="paper's direction, our bound").claim(
        "the_last_layer_suppresses",
        "The last layer lowers the right answer's logit in more than three quarters of the prompts (paper: in all "
        "models).",
        of(table, "last layer", "negative"),
        "share of the prompts",
        above=OFTEN,
        also=[bound("upper end of what it adds", of(table, "last layer", "answer", "high"), below=0)],
    )
    yield Evidence(table, "6", source="paper's direction").claim(
        "halving_it_helps",
        "If what the last layer adds is halved, the right answer becomes more probable (paper: suppression can be "
        "reversed).",
        of(table, "last layer", "halving adds", "low"),
        "lower end of the probability gained",
        above=0,
    )


def about_toys(table: DataFrame) -> Iterator[Claim]:
    """Claims on what the toy study `facts` found, for a language model."""
    evidence = Evidence(table, "beyond")
    yield evidence.claim(
        "the_kind_before_the_fact",
        "Going up the layers, the loss on the answer's relation is halved before the loss on the answer within its "
        "relation, as happens over training in the toy models of `facts`.",
        of(table, "halved after", "subject later", "low"),
        "lower end of the layers in between",
        above=0,
    )
    yield evidence.claim(
        "mlps_add_more_than_heads",
        "MLPs add more than heads do to the right answer's logit, measured against other answers of the relation.",
        of(table, "share", "mlps", "low"),
        "lower end of the MLPs' share",
        above=0.5,
    )


def about_controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims, which state the conditions for the other claims to be meaningful."""
    hand, idle = (table[table.part == part] for part in ("by hand", "untrained"))
    yield Evidence(hand, "control (ours)").claim(
        "by_hand",
        "Control: in a model with hand-set weights the measures find what was planted: the topic head, the MLP that "
        "adds the answer with its coefficient, and the suppression in the last layer.",
        of(hand, "topic: share", "topic"),
        "share of the topic head",
        within=around(1, 1e-3),
        also=[
            bound("share exchanged with it", of(hand, "instead: exchanged", "topic"), within=around(1, 1e-3)),
            bound("the answer's number (√(11/12) by hand)", of(hand, "regression: number", "answer"),
                  within=around((11 / 12) ** 0.5, 1e-3)),
            bound("R² that the answer adds", of(hand, "regression", "gain"), within=around(1, 1e-3)),
            bound("share of prompts suppressed", of(hand, "last layer", "negative"), equals=1),
            bound("probability gained by halving", of(hand, "last layer", "halving adds"), above=0),
        ],
    )  # fmt: skip
    yield Evidence(idle, "control (ours)").claim(
        "untrained",
        "Control: at initial weights no MLP adds the answer, and the last layer lowers as many answers as it raises.",
        of(idle, "function", "adds"),
        "number of nats",
        also=[
            *spans(idle, "what it adds", "function", "adds"),
            *spans(idle, "the answer's number", "regression: number", "answer"),
            bound("share of prompts suppressed", of(idle, "last layer", "negative"), within=around(0.5, 0.25)),
        ],
    )


def spans(table: DataFrame, what: str, kind: str, name: str) -> list[Any]:
    """The bounds for an interval to contain 0."""
    return [
        bound(f"lower end of {what}", of(table, kind, name, "low"), at_most=0),
        bound(f"upper end of {what}", of(table, kind, name, "high"), at_least=0),
    ]
