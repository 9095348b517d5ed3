"""The claims of `induction_formation`, from its table alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, bound
from hopscope.experiments.long_table import learnt, values
from hopscope.experiments.values import ratios

BY_HAND = "by hand"
PICKS_ONE = math.log(2)  # the loss of picking one of the context's two labels at random
NEAR = 0.1  # of that: what counts as the plateau (ours)
STRONG = 0.5  # attention to the right label over that to the wrong one: an induction head (ours)
HIGH, LOW = 0.75, 0.25  # shares of ln 2 between which the change is timed


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about the phase change, heads, parts of the circuit, data, and controls."""
    yield from change(table)
    yield from heads(table)
    yield from parts(table)
    yield Evidence(table[table.condition == "labels"], "5", source="paper", among=table).claim(
        "labels_delay_more_than_classes",
        "Three times as many labels delay the phase change more than four times as many classes do (paper: more "
        "classes delay it only mildly).",
        ratios(learnt(table, "labels"), learnt(table, "classes")),
        "time with more labels over time with more classes",
        above=1,
        of="median",
    )
    yield from controls(table)


def change(table: DataFrame) -> Iterator[Claim]:
    """Claims about the plateau, and about how it ends."""
    free = values(table, "free", "loss", "validation")
    yield Evidence(free, "3").claim(
        "plateau_at_ln_2",
        "For most of the time before its phase change, the model's loss is near ln 2, the loss of picking one of the "
        "context's two labels at random.",
        per_run(free, share_near),
        "share of the time before the change",
        at_least=0.5,
        of="median",
    )
    yield Evidence(free, "3").claim(
        "it_ends_abruptly",
        "The loss falls from three quarters to one quarter of ln 2, the loss of a guess between the context's two "
        "labels, in less time than training had taken until then.",
        per_run(free, fall),
        "time of the fall over the time before it",
        below=1,
        of="median",
    )


def per_run(rows: DataFrame, measured: object) -> Series:
    """A number for each run, computed from its steps and losses."""
    assert callable(measured)
    ordered = rows.sort_values("step").groupby("run")
    found = {run: measured(part.step.to_numpy(), part.value.to_numpy()) for run, part in ordered}
    return Series(found, dtype=float).rename_axis("run")


def passing(steps: numpy.ndarray, losses: numpy.ndarray, level: float) -> float:
    """The first step with a loss below a share of ln 2; NaN if there is none."""
    below = losses < level * PICKS_ONE
    return float(steps[below.argmax()]) if below.any() else math.nan


def share_near(steps: numpy.ndarray, losses: numpy.ndarray) -> float:
    """The share of steps before the phase change at which the loss is near ln 2."""
    before = losses[steps < passing(steps, losses, HIGH)]
    return float((numpy.abs(before - PICKS_ONE) < NEAR).mean()) if len(before) else math.nan


def fall(steps: numpy.ndarray, losses: numpy.ndarray) -> float:
    """The number of steps that the phase change takes, divided by the number of steps before it."""
    began = passing(steps, losses, HIGH)
    return (passing(steps, losses, LOW) - began) / began if began else math.nan


def heads(table: DataFrame) -> Iterator[Claim]:
    """Claims about how many induction heads there are, and what each is worth."""
    strength, alone = (values(table, "free", kind) for kind in ("strength", "alone"))
    whole = values(table, "free", "accuracy", "whole").set_index("run").value
    best = alone.groupby("run").value.max()
    yield Evidence(strength, "3").claim(
        "several_heads",
        f"Several heads of layer 1 become induction heads: they attend to the right label at least {STRONG} more than "
        "to the wrong one (paper: five of eight heads do).",
        (strength.value > STRONG).groupby(strength.run).sum(),
        "heads with a strength above 0.5",
        at_least=2,
    )
    yield Evidence(alone, "3").claim(
        "the_best_alone_is_less",
        "With only its best head, the model is right less often than with all heads (paper: .980 against .99999).",
        whole[best.index] - best if len(best) else [],
        "accuracy lost",
        above=0,
    )
    yield Evidence(values(table, "free", "margin"), "3").claim(
        "heads_add_up",
        "The contributions of two heads add up: over all pairs of heads, the logit margin with both is correlated with "
        "the sum of the margins with either.",
        additivity(table),
        "correlation",
        at_least=0.9,
        of="median",
    )


def additivity(table: DataFrame) -> Series:
    """By free run, the correlation of two heads' margins with sums of single heads', relative to no head."""
    found = {}
    for run, part in values(table, "free", "margin").groupby("run"):
        margin = part.set_index("name").value
        gains = margin - margin["none"]
        pairs = [name for name in gains.index if " " in name]
        sums = [gains[name.split()].sum() for name in pairs]
        found[run] = float(numpy.corrcoef(gains[pairs], sums)[0, 1]) if len(pairs) > 1 else math.nan
    return Series(found, dtype=float).rename_axis("run")


def parts(table: DataFrame) -> Iterator[Claim]:
    """Claims about what layer 0 contributes, and that answers depend on patterns."""

    def of(name: str) -> DataFrame:
        return values(table, "free", "accuracy", name)

    names = ("layer 0 for patterns alone", "nothing of layer 0", "patterns of others", "withheld labels")
    serves, nothing, others, new = map(of, names)
    yield Evidence(serves, "3").claim(
        "layer_0_serves_patterns",
        "If layer 0's output is removed but layer 1 keeps its attention patterns, answers stay right (paper: .99986).",
        serves.value,
        "accuracy",
        at_least=0.98,
        of="median",
    )
    yield Evidence(nothing, "3").claim(
        "without_layer_0_a_guess",
        "If layer 1's attention patterns are recomputed without layer 0's output, the model only guesses between the "
        "context's two labels.",
        nothing.value,
        "accuracy",
        of="median",
        within=around(0.5, 0.15),
    )
    yield Evidence(others, "3").claim(
        "patterns_of_others_a_guess",
        "Control: if layer 1's attention patterns are replaced by those of another sequence, the model only guesses "
        "between the context's two labels.",
        others.value,
        "accuracy",
        within=around(0.5, 0.1),
    )
    yield Evidence(new, "3").claim(
        "withheld_labels",
        "Models also answer correctly if the context's two labels never occurred together in training.",
        new.value,
        "accuracy",
        at_least=0.9,
        of="median",
    )


def controls(table: DataFrame) -> Iterator[Claim]:
    """Control claims: the hand-set circuit, and models before training."""
    hand = values(table, BY_HAND, "accuracy", "whole")
    strong = values(table, BY_HAND, "strength")
    yield Evidence(hand, "ours", among=table).claim(
        "by_hand",
        "Control: an induction circuit with hand-set weights is always right, and attends to the right label alone.",
        hand.value,
        "accuracy",
        also=[bound("strength", strong.value, at_least=0.999)],
        at_least=0.999,
    )
    first = values(table[table.step == 0], "free", "seen", "induction")
    yield Evidence(first, "3").claim(
        "untrained",
        "Control: before training no head attends much more to the right label than to the wrong one.",
        first.value,
        "strength of the best head",
        below=0.1,
    )
