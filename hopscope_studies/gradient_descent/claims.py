"""What von Oswald et al. (2023) say, judged from the table of `gradient_descent` alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, between, bound

FIGURE_2 = "3, figure 2"


def of(table: DataFrame, what: str, system: str = "one layer") -> DataFrame:
    """The rows of a quantity."""
    return table[(table.what == what) & (table.system == system)]


def share(rows: DataFrame) -> Series:
    """The model's number over descent's."""
    return rows.model / rows.descent


def alike(rows: DataFrame, id: str, sentence: str, what: str, section: str = FIGURE_2, **more: Any) -> Claim:
    """A claim on the model's number over descent's."""
    return Evidence(rows, section).claim(id, sentence, share(rows), what, **more)


def claims(table: DataFrame) -> Iterator[Claim]:
    """One layer, at home and elsewhere; several layers; controls."""
    yield constructed(table)
    yield from at_home(table)
    yield from elsewhere(table)
    yield from several(table)
    yield from controls(table)


def constructed(table: DataFrame) -> Claim:
    """The hand-set positive control against a step of descent that is computed without attention."""
    return alike(
        of(table, "constructed"),
        "constructed_is_descent",
        "Positive control: a layer with hand-set weights gives the answers of a step of gradient descent that is "
        "computed without attention (proposition 1).",
        "greatest difference of any answer over the mean size of answers",
        "2, proposition 1",
        at_most=1e-5,
    )


def at_home(table: DataFrame) -> Iterator[Claim]:
    """Loss, answers, sensitivities and weights on the sequences that were trained on."""
    yield alike(
        of(table, "loss"),
        "one_layer_reaches_the_best_step",
        "A trained layer has the loss of one step of gradient descent at the best rate (paper: the curves coincide).",
        "loss over that of descent on the same sequences",
        within=around(1.0, 0.02),
    )
    yield alike(
        of(table, "distance of answers"),
        "answers_agree",
        "A trained layer's answers are those of gradient descent (paper: their distance falls to about 0).",
        "mean distance of answers over their mean size",
        at_most=0.1,
        also=[bound("correlation of answers", of(table, "correlation of answers").model, at_least=0.995)],
    )
    rows = of(table, "cosine of sensitivities")
    yield Evidence(rows, FIGURE_2).claim(
        "sensitivities_point_alike",
        "If the query's x changes, a trained layer's answers change in the same direction as descent's (paper: the "
        "cosine of sensitivities rises to about 1).",
        rows.model,
        "mean cosine of sensitivities",
        at_least=0.99,
    )
    yield alike(
        of(table, "distance of sensitivities"),
        "sensitivities_are_alike",
        "If the query's x changes, a trained layer's answers change by as much as descent's (paper: the L2 distance of "
        "sensitivities falls to about 0).",
        "mean distance of sensitivities over descent's mean length",
        at_most=0.1,
    )
    yield alike(
        of(table, "loss of interpolated weights"),
        "interpolated_weights_do_as_well",
        "A layer whose weights are the mean of trained and hand-set weights does as well as either (paper: the same "
        "loss).",
        "loss of the mean over that of descent",
        within=around(1.0, 0.02),
    )


def elsewhere(table: DataFrame) -> Iterator[Claim]:
    """Inputs and weights of other sizes."""
    rows = of(table, "loss by input range")
    yield alike(
        rows[rows["at"] <= 1.5],
        "other_inputs",
        "On inputs of half to one and a half times the training size, a trained layer has descent's loss (paper: the "
        "curves coincide).",
        "loss over that of descent",
        within=around(1.0, 0.1),
    )
    yield alike(
        rows[rows["at"] == 2],
        "far_inputs",
        "On inputs of twice the training size, a trained layer still has descent's loss, though both are worse than "
        "predicting 0 (paper: the curves coincide).",
        "loss over that of descent",
        within=around(1.0, 0.1),
    )
    yield alike(
        of(table, "loss by weight scale"),
        "other_weights",
        "If the weights w to be found have half to five times the training size, a trained layer has descent's loss "
        "(paper: the curves coincide).",
        "loss over that of descent",
        within=around(1.0, 0.1),
    )
    yield from repeated(table)


def repeated(table: DataFrame) -> Iterator[Claim]:
    """The layer applied to its own tokens."""
    yield alike(
        of(table, "loss repeated"),
        "repeated_it_descends",
        "Applied to its own output up to ten times, damped by 0.75, a trained layer has the loss of repeated descent.",
        "loss over that of descent after as many steps",
        number="median",
        within=around(1.0, 0.1),
        section="4, figure 4",
    )
    yield alike(
        of(table, "loss repeated on y alone"),
        "repeated_on_y_alone_it_descends",
        "Applied to its own output up to ten times, with only y rewritten, a trained layer has the loss of repeated "
        "descent.",
        "loss over that of descent after as many steps",
        within=around(1.0, 0.1),
        section="4, figure 4",
    )


def several(table: DataFrame) -> Iterator[Claim]:
    """Two layers against two steps, plain or of GD++."""
    plain = [of(table, "loss against gradient descent", system) for system in ("two layers, looped", "two layers")]
    yield Evidence(table[table.system.str.startswith("two layers")], "4, figure 4", source="paper").claim(
        "two_beat_two_steps",
        "Two layers, looped or not, beat two steps of gradient descent at their best rates (paper: they do).",
        [number for rows in plain for number in share(rows)],
        "loss over that of two steps",
        below=1.0,
    )
    yield alike(
        of(table, "loss against GD++", "two layers, looped"),
        "looped_is_gd_plus_plus",
        "Two layers with shared weights have the loss of two steps of GD++ at the best common rates (paper: the curves "
        "coincide).",
        "loss over that of GD++",
        within=around(1.0, 0.05),
        section="4, figure 4",
    )
    yield alike(
        of(table, "loss against GD++", "two layers"),
        "own_weights_are_no_worse_than_gd_plus_plus",
        "Two layers with separate weights are no worse than two steps of GD++, each at its own best rates.",
        "loss over that of GD++",
        at_most=1.02,
        section="4, figure 4",
    )


def controls(table: DataFrame) -> Iterator[Claim]:
    """Weights as drawn, and labels that belong to other examples: neither gives descent."""
    rows = of(table, "cosine of sensitivities", "untrained")
    yield Evidence(rows, "ours").claim(
        "untrained_is_no_descent",
        "Control: if the query's x changes, an untrained layer's answers do not change in descent's direction.",
        rows.model,
        "mean cosine of sensitivities",
        within=between(-0.3, 0.3),
        also=[bound("loss over that of descent", share(of(table, "loss", "untrained")), at_least=1.5)],
    )
    rows = of(table, "loss with shuffled labels")
    yield Evidence(rows, "ours").claim(
        "shuffled_labels_teach_nothing",
        "Control: if every example has another example's label, a trained layer does no better than predicting 0.",
        rows.model / rows.zero,
        "loss over that of predicting 0",
        at_least=1.0,
    )
