"""Claims on factual recall, from the table; what was chosen on some groups of facts is judged on others."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, bound, telling
from hopscope.experiments.reports import of

ENOUGH = 12  # facts that a sentence must elicit (ours)
MOST = 0.5  # share of what heads write along the subject (ours)
FEW = 0.1  # the same share for random heads; share of the variation in an MLP's output (ours)
LATE = 2 / 3  # share of the layers (ours)
OFTEN = 0.75  # share of the prompts (ours)
CONTROLS = ("random", "same layers")
#: What is claimed, by id.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text(encoding="utf-8"))
told = telling(SENTENCES)


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
        yield replace(
            claim, n=1, seeds=claim.seeds[:1], interval=None
        )  # all seeds ask the same prompts of the same weights
    yield from about_controls(table)


def about_knowledge(table: DataFrame) -> Iterator[Claim]:
    """Claims about how often the right word is the likeliest."""
    rows = table[table.kind == "right"]
    first = rows[rows.run == rows.run.min()]
    models, id = " and ".join(sorted(set(table.model))), "enough_is_known"
    sentence = SENTENCES[id].format(models=models, right=first.value.sum(), all=first.step.sum())
    what = "number of facts that a sentence brings out"
    yield Evidence(rows, "3").claim(id, sentence, rows.value, what, at_least=ENOUGH)


def about_topic_heads(table: DataFrame) -> Iterator[Claim]:
    """Claims that a few heads write the subject at the last token."""
    evidence = Evidence(table, "4")
    chances = [table[(table.kind == "topic: share") & table.name.str.startswith(name)] for name in CONTROLS]
    also = [
        bound(f"share of {name} heads", some.value, below=FEW) for name, some in zip(CONTROLS, chances, strict=True)
    ]
    id, what, share = "ten_heads_write_the_topic", "share of what is written", of(table, "topic: share", "topic")
    yield told(evidence, id, share, what, at_least=MOST, also=also)
    id, more = "they_write_the_subject_more_than_the_answer", of(table, "apart: heads", "subject over answer", "low")
    what = "lower end of what is written along the subject beyond what is along the answer"
    yield told(evidence, id, more, what, above=0)
    above = [of(table, "topic: looks", "topic", "low") - beside(table, "topic: looks", name) for name in CONTROLS]
    id, what = "topic_heads_look_at_the_subject", "lower end of attention above that of random heads"
    also = [bound("that above heads of the same layers", above[1], above=0)]
    yield told(evidence, id, above[0], what, above=0, also=also)
    chosen = table[(table.kind == "chosen") & (table.name == "topic")].groupby("run").step.median()
    between = of(table, "function", "layer") - chosen
    yield told(evidence, "the_topic_comes_first", between, "number of layers in between", at_least=0)


def about_exchange(table: DataFrame) -> Iterator[Claim]:
    """Claims about replacing the topic heads' outputs."""
    for id, kind in (
        ("topic_heads_are_needed", "lost"),
        ("topic_heads_carry_the_argument", "exchanged"),
        ("mlps_apply_it_to_the_argument", "by_mlps"),
    ):
        ends = [of(table, f"beyond: {kind}", f"topic over {name}", "low") for name in CONTROLS]
        also = [bound("that beyond heads of the same layers", ends[1], above=0)]
        what = "lower end of the share beyond random heads"
        yield told(Evidence(table, "4"), id, ends[0], what, above=0, also=also)


def about_function(table: DataFrame) -> Iterator[Claim]:
    """Claims that an MLP adds the answer."""
    layers = table[table.kind == "adds"].groupby("run").step.max() + 1
    where, end = of(table, "function", "layer"), of(table, "function", "adds", "low")
    beyond = end - beside(table, "function: mixed")
    also = [
        bound("place among the layers", (where + 1) / layers, above=LATE),
        bound("that end above what it adds to mixed answers", beyond, above=0),
    ]
    what = "lower end of what it adds (nats)"
    yield told(Evidence(table, "5"), "a_late_mlp_adds_the_answer", end, what, above=0, also=also)


def about_regression(table: DataFrame) -> Iterator[Claim]:
    """Claims about what explains the MLP's output."""
    evidence = Evidence(table, "5")
    end = of(table, "regression: number", "answer", "low")
    beyond = end - beside(table, "regression: mixed", "answer")
    also = [bound("that above the highest with answers mixed", beyond, above=0)]
    yield told(evidence, "the_answer_is_in_it", end, "lower end of the answer's number", above=0, also=also)
    beyond = of(table, "regression", "read", "low") - beside(table, "regression: mixed", "read")
    also = [bound("lower end above the highest with facts mixed", beyond, above=0)]
    yield told(evidence, "heads_explain_it", of(table, "regression", "read"), "R²", at_least=FEW, also=also)
    heads = table[table.kind == "regression: head"]
    erased, amplified = ((heads[sign] * side > 0).groupby(heads.run).sum() for sign, side in (("high", -1), ("low", 1)))
    also = [bound("number of heads that are amplified", amplified, at_least=1)]
    what = "number of heads that are erased"
    yield told(evidence, "it_erases_and_amplifies", erased, what, at_least=1, also=also)
    end, what = of(table, "intercept", "own kind", "low"), "lower end of what it adds (nats)"
    yield told(evidence, "the_intercept_points_to_the_kind", end, what, above=0)


def about_the_last_layer(table: DataFrame) -> Iterator[Claim]:
    """Claims about whether the last layer suppresses the answer."""
    evidence = Evidence(table, "6", source="paper's direction, our bound")
    also = [bound("upper end of what it adds", of(table, "last layer", "answer", "high"), below=0)]
    share, what = of(table, "last layer", "negative"), "share of the prompts"
    yield told(evidence, "the_last_layer_suppresses", share, what, above=OFTEN, also=also)
    evidence, end = Evidence(table, "6", source="paper's direction"), of(table, "last layer", "halving adds", "low")
    yield told(evidence, "halving_it_helps", end, "lower end of the probability gained", above=0)


def about_toys(table: DataFrame) -> Iterator[Claim]:
    """Claims on what the toy study `facts` found, for a language model."""
    evidence, end = Evidence(table, "beyond"), of(table, "halved after", "subject later", "low")
    yield told(evidence, "the_kind_before_the_fact", end, "lower end of the layers in between", above=0)
    end = of(table, "share", "mlps", "low")
    yield told(evidence, "mlps_add_more_than_heads", end, "lower end of the MLPs' share", above=0.5)


def about_controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims, which state the conditions for the other claims to be meaningful."""
    hand, idle = (table[table.part == part] for part in ("by hand", "untrained"))
    one, number = around(1, 1e-3), around((11 / 12) ** 0.5, 1e-3)
    also = [
        bound("share exchanged with it", of(hand, "instead: exchanged", "topic"), within=one),
        bound("the answer's number (√(11/12) by hand)", of(hand, "regression: number", "answer"), within=number),
        bound("R² that the answer adds", of(hand, "regression", "gain"), within=one),
        bound("share of prompts suppressed", of(hand, "last layer", "negative"), equals=1),
        bound("probability gained by halving", of(hand, "last layer", "halving adds"), above=0),
    ]
    evidence, share = Evidence(hand, "control (ours)"), of(hand, "topic: share", "topic")
    yield told(evidence, "by_hand", share, "share of the topic head", within=one, also=also)
    also = [
        *spans(idle, "what it adds", "function", "adds"),
        *spans(idle, "the answer's number", "regression: number", "answer"),
        bound("share of prompts suppressed", of(idle, "last layer", "negative"), within=around(0.5, 0.25)),
    ]
    evidence = Evidence(idle, "control (ours)")
    yield told(evidence, "untrained", of(idle, "function", "adds"), "number of nats", also=also)


def spans(table: DataFrame, what: str, kind: str, name: str) -> list[Any]:
    """The bounds for an interval to contain 0."""
    return [
        bound(f"lower end of {what}", of(table, kind, name, "low"), at_most=0),
        bound(f"upper end of {what}", of(table, kind, name, "high"), at_least=0),
    ]
