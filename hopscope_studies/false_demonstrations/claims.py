"""The claims of `false_demonstrations`, judged from the table alone."""

from __future__ import annotations

from collections.abc import Iterator

import pandas
from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.long_table import values
from hopscope_studies.false_demonstrations.demonstrations import FALSE

BY_HAND, UNTRAINED = "by hand", "untrained"


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims in the order of the paper: behaviour, layers, heads, late layers; then the controls."""
    rows = table[table.condition == "trained"]
    curves = lens(table, "trained")
    yield from layer_claims(table, rows, curves)
    yield from head_claims(table, rows)
    yield from late_claims(table, rows, curves)
    yield from control_claims(table, rows, curves)


def lens(table: DataFrame, condition: str) -> DataFrame:
    """Accuracy by run and number of layers, with a column for each kind of context."""
    found = values(table, condition, "lens")
    shown = found.pivot_table(index=["run", "step"], columns="name", values="value")
    return shown.reindex(columns=["true", *FALSE])


def by_run(table: DataFrame, kind: str, name: str, condition: str = "trained") -> Series:
    """The values of one kind and name, by run."""
    return values(table, condition, kind, name).set_index("run").value


def ends(curves: DataFrame) -> DataFrame:
    """Accuracy after the last layer."""
    return curves.groupby("run").last()


def layer_claims(table: DataFrame, rows: DataFrame, curves: DataFrame) -> Iterator[Claim]:
    """Claims about the gap, the layer where it begins, and the accuracy of false contexts before it."""
    final = ends(curves)
    yield Evidence(rows, "section 2").claim(
        "false_demonstrations_mislead",
        "If the context shows known classes with permuted labels, the model classifies less accurately than with true "
        "labels (paper, GPT-J: accuracy .344 instead of .695).",
        final.true - final.permuted,
        "accuracy lost",
        above=0.2,
    )
    share = by_run(table, "critical", "layers") / by_run(table, "critical", "depth")
    yield Evidence(rows, "section 3", source="paper").claim(
        "the_gap_comes_late",
        "The critical layer, after which half of the gap in accuracy between true and false labels has appeared, is in "
        "the second half of the model (the paper reports this of three models).",
        share,
        "share of the layers",
        at_least=0.5,
    )
    best = curves.permuted.groupby("run").max()
    yield Evidence(rows, "section 3").claim(
        "false_labels_overthink",
        "With false labels, answers decoded after some earlier layer are more accurate than final answers (paper, "
        "GPT-J: accuracy .484 after layer 16, .344 at the end).",
        best - final.permuted,
        "accuracy lost",
        at_least=0.1,
    )


def reduction(table: DataFrame, without: str, kind: str, condition: str = "trained") -> Series:
    """The share by which the gap between true and false contexts shrinks without some heads; NaN if there is no gap."""
    whole, left = (
        by_run(table, name, "true", condition) - by_run(table, name, kind, condition) for name in ("whole", without)
    )
    return (1 - left / whole).where(whole > 0)


def head_claims(table: DataFrame, rows: DataFrame) -> Iterator[Claim]:
    """Claims about what the false induction heads do, and where they are."""
    ours, others = (reduction(table, without, "permuted") for without in ("without heads", "without others"))
    spared = by_run(table, "whole", "true") - by_run(table, "without heads", "true")
    yield Evidence(rows, "section 4", source="paper; others and true accuracy ours").claim(
        "false_induction_heads",
        "Ablating the two false induction heads, which attend most to labels of the query's class, closes more of the "
        "gap between true and false labels than ablating two other heads, and spares answers with true labels (paper: "
        "ablating five heads of GPT-J closes 39.0 % of the gap).",
        ours,
        "share of the gap taken away",
        at_least=0.3898,
        also=[
            bound("share above that of two others", (ours - others).dropna(), above=0),
            bound("true accuracy lost", spared, below=0.05),
        ],
    )
    layers = values(table, "trained", "chosen").groupby("run").value.max()
    yield Evidence(rows, "section 4").claim(
        "the_heads_are_late",
        "The later of the two false induction heads is in the critical layer or after it (paper: false induction heads "
        "are in late layers).",
        layers - by_run(table, "critical", "layers"),
        "layers behind the critical one",
        at_least=0,
    )
    parts = {kind: reduction(table, "without heads", kind) for kind in ("half", "random")}
    yield Evidence(rows, "section 4").claim(
        "half_and_random_labels",
        "Ablating the false induction heads, which are chosen with permuted labels, also closes some of the gap to "
        "true labels if half of the labels are permuted, or if labels are random (paper: 15.1 % and 31.5 % of it).",
        pandas.concat(list(parts.values())),
        "share of the gap taken away",
        above=0,
    )


def late_claims(table: DataFrame, rows: DataFrame, curves: DataFrame) -> Iterator[Claim]:
    """Claims about late attention and late MLPs."""
    final = ends(curves).permuted
    attention, mlps = (by_run(table, f"without late {part}", "permuted") for part in ("attention", "MLPs"))
    yield Evidence(rows, "section 4", source="paper").claim(
        "late_attention_not_mlps",
        "With permuted labels, ablating attention from the critical layer on raises accuracy above that of the intact "
        "model, and above that without MLPs from this layer on (the paper reports this of GPT-J).",
        attention - mlps,
        "accuracy above that without MLPs",
        above=0,
        also=[bound("accuracy above that of the whole", attention - final, above=0)],
    )


def control_claims(table: DataFrame, rows: DataFrame, curves: DataFrame) -> Iterator[Claim]:
    """Control claims: what models know, what attention does, and contexts that the model does not follow."""
    both = pandas.concat([by_run(table, "accuracy", name) for name in ("IC", "IW")])
    yield Evidence(rows, "control").claim(
        "knows_both",
        "Control: models classify new classes from the context, and known classes that the context does not show.",
        both,
        "accuracy",
        above=0.8,
    )
    yield Evidence(rows, "control").claim(
        "patterns_of_others_a_guess",
        "Control: with attention patterns taken from another sequence, a model only guesses which of the context's two "
        "labels a new class has.",
        by_run(table, "patterns of others", "IC"),
        "accuracy",
        below=0.65,
    )
    first = curves.groupby("run").first()
    yield Evidence(rows, "control").claim(
        "no_gap_before_attention",
        "Control: answers decoded before the first layer are equally accurate with true and with false labels, because "
        "nothing of the context has been read.",
        first.true - first.permuted,
        "difference of accuracies",
        equals=0,
    )
    absent = by_run(table, "absent", "true") - by_run(table, "absent", "permuted")
    yield Evidence(rows, "control").claim(
        "contexts_of_other_classes",
        "Control: if the context shows only classes other than the query's, false labels do not lower accuracy.",
        absent,
        "accuracy lost",
        below=0.1,
    )
    yield from known_claims(table)


def known_claims(table: DataFrame) -> Iterator[Claim]:
    """Control claims about the hand-set model and untrained ones."""
    hand = values(table, BY_HAND, "lens")
    answers = lens(table, BY_HAND).permuted
    taken = reduction(table, "without heads", "permuted", BY_HAND)
    yield Evidence(hand, "control").claim(
        "by_hand",
        "Control: with false labels, a model with hand-set weights answers correctly before its last layer and wrongly "
        "after it; without its induction head, false labels do no harm.",
        answers.groupby("run").max() - answers.groupby("run").last(),
        "accuracy lost",
        at_least=0.99,
        also=[bound("share of the gap taken away", taken, at_least=0.99)],
    )
    start = ends(lens(table, UNTRAINED))
    yield Evidence(values(table, UNTRAINED, "lens"), "control").claim(
        "untrained",
        "Control: before training, accuracies with true and with false labels are nearly the same.",
        (start.true - start.permuted).abs(),
        "difference of accuracies",
        below=0.1,
    )
