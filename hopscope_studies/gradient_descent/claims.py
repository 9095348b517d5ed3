"""What von Oswald et al. (2023) say, judged from the table of `gradient_descent` alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, between, bound

FIGURE_2, FIGURE_4 = "3, figure 2", "4, figure 4"
OF_LOSSES = "loss over that of descent"
#: What is claimed, by id, in the order of judging.
SENTENCES = {
    "constructed_is_descent": "Positive control: a layer with hand-set weights gives the answers of a step of gradient "
    "descent that is computed without attention (proposition 1).",
    "one_layer_reaches_the_best_step": "A trained layer has the loss of one step of gradient descent at the best rate "
    "(paper: the curves coincide).",
    "answers_agree": "A trained layer's answers are those of gradient descent (paper: their distance falls to about "
    "0).",
    "sensitivities_point_alike": "If the query's x changes, a trained layer's answers change in the same direction as "
    "descent's (paper: the cosine of sensitivities rises to about 1).",
    "sensitivities_are_alike": "If the query's x changes, a trained layer's answers change by as much as descent's "
    "(paper: the L2 distance of sensitivities falls to about 0).",
    "interpolated_weights_do_as_well": "A layer whose weights are the mean of trained and hand-set weights does as "
    "well as either (paper: the same loss).",
    "other_inputs": "On inputs of half to one and a half times the training size, a trained layer has descent's loss "
    "(paper: the curves coincide).",
    "far_inputs": "On inputs of twice the training size, a trained layer still has descent's loss, though both are "
    "worse than predicting 0 (paper: the curves coincide).",
    "other_weights": "If the weights w to be found have half to five times the training size, a trained layer has "
    "descent's loss (paper: the curves coincide).",
    "repeated_it_descends": "Applied to its own output up to ten times, damped by 0.75, a trained layer has the loss "
    "of repeated descent.",
    "repeated_on_y_alone_it_descends": "Applied to its own output up to ten times, with only y rewritten, a trained "
    "layer has the loss of repeated descent.",
    "two_beat_two_steps": "Two layers, looped or not, beat two steps of gradient descent at their best rates (paper: "
    "they do).",
    "looped_is_gd_plus_plus": "Two layers with shared weights have the loss of two steps of GD++ at the best common "
    "rates (paper: the curves coincide).",
    "own_weights_are_no_worse_than_gd_plus_plus": "Two layers with separate weights are no worse than two steps of "
    "GD++, each at its own best rates.",
    "untrained_is_no_descent": "Control: if the query's x changes, an untrained layer's answers do not change in "
    "descent's direction.",
    "shuffled_labels_teach_nothing": "Control: if every example has another example's label, a trained layer does no "
    "better than predicting 0.",
}


def of(table: DataFrame, what: str, system: str = "one layer") -> DataFrame:
    """The rows of a quantity."""
    return table[(table.what == what) & (table.system == system)]


def share(rows: DataFrame) -> Series:
    """The model's number over descent's."""
    return rows.model / rows.descent


def alike(rows: DataFrame, id: str, what: str, section: str = FIGURE_2, **more: Any) -> Claim:
    """A claim on the model's number over descent's."""
    return Evidence(rows, section).claim(id, SENTENCES[id], share(rows), what, **more)


def claims(table: DataFrame) -> Iterator[Claim]:
    """One layer, at home and elsewhere; several layers; controls."""
    yield constructed(table)
    yield from at_home(table)
    yield from elsewhere(table)
    yield from several(table)
    yield from controls(table)


def constructed(table: DataFrame) -> Claim:
    """The hand-set positive control against a step of descent that is computed without attention."""
    what = "greatest difference of any answer over the mean size of answers"
    return alike(of(table, "constructed"), "constructed_is_descent", what, "2, proposition 1", at_most=1e-5)


def at_home(table: DataFrame) -> Iterator[Claim]:
    """Loss, answers, sensitivities and weights on the sequences that were trained on."""
    what = f"{OF_LOSSES} on the same sequences"
    yield alike(of(table, "loss"), "one_layer_reaches_the_best_step", what, within=around(1.0, 0.02))
    correlated = bound("correlation of answers", of(table, "correlation of answers").model, at_least=0.995)
    what = "mean distance of answers over their mean size"
    yield alike(of(table, "distance of answers"), "answers_agree", what, at_most=0.1, also=[correlated])
    rows, id = of(table, "cosine of sensitivities"), "sensitivities_point_alike"
    yield Evidence(rows, FIGURE_2).claim(id, SENTENCES[id], rows.model, "mean cosine of sensitivities", at_least=0.99)
    what = "mean distance of sensitivities over descent's mean length"
    yield alike(of(table, "distance of sensitivities"), "sensitivities_are_alike", what, at_most=0.1)
    rows, what = of(table, "loss of interpolated weights"), "loss of the mean over that of descent"
    yield alike(rows, "interpolated_weights_do_as_well", what, within=around(1.0, 0.02))


def elsewhere(table: DataFrame) -> Iterator[Claim]:
    """Inputs and weights of other sizes, and the layer applied to its own tokens."""
    inputs, near = of(table, "loss by input range"), around(1.0, 0.1)
    yield alike(inputs[inputs["at"] <= 1.5], "other_inputs", OF_LOSSES, within=near)
    yield alike(inputs[inputs["at"] == 2], "far_inputs", OF_LOSSES, within=near)
    yield alike(of(table, "loss by weight scale"), "other_weights", OF_LOSSES, within=near)
    what, whole = f"{OF_LOSSES} after as many steps", of(table, "loss repeated")
    yield alike(whole, "repeated_it_descends", what, FIGURE_4, number="median", within=near)
    y_alone = of(table, "loss repeated on y alone")
    yield alike(y_alone, "repeated_on_y_alone_it_descends", what, FIGURE_4, within=near)


def several(table: DataFrame) -> Iterator[Claim]:
    """Two layers against two steps, plain or of GD++."""
    plain = [of(table, "loss against gradient descent", system) for system in ("two layers, looped", "two layers")]
    both, id = table[table.system.str.startswith("two layers")], "two_beat_two_steps"
    shares = [number for rows in plain for number in share(rows)]
    what = "loss over that of two steps"
    yield Evidence(both, FIGURE_4, source="paper").claim(id, SENTENCES[id], shares, what, below=1.0)
    what, looped = "loss over that of GD++", of(table, "loss against GD++", "two layers, looped")
    yield alike(looped, "looped_is_gd_plus_plus", what, FIGURE_4, within=around(1.0, 0.05))
    own = of(table, "loss against GD++", "two layers")
    yield alike(own, "own_weights_are_no_worse_than_gd_plus_plus", what, FIGURE_4, at_most=1.02)


def controls(table: DataFrame) -> Iterator[Claim]:
    """Weights as drawn, and labels that belong to other examples: neither gives descent."""
    rows, id = of(table, "cosine of sensitivities", "untrained"), "untrained_is_no_descent"
    worse, within = bound(OF_LOSSES, share(of(table, "loss", "untrained")), at_least=1.5), between(-0.3, 0.3)
    cosine = "mean cosine of sensitivities"
    yield Evidence(rows, "ours").claim(id, SENTENCES[id], rows.model, cosine, within=within, also=[worse])
    rows, id = of(table, "loss with shuffled labels"), "shuffled_labels_teach_nothing"
    what = "loss over that of predicting 0"
    yield Evidence(rows, "ours").claim(id, SENTENCES[id], rows.model / rows.zero, what, at_least=1.0)
