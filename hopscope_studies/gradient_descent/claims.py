"""What von Oswald et al. (2023) say, judged from the table of `gradient_descent` alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from hopscope.experiments.judging import Claim, Evidence, around, between, bound, telling

FIGURE_2, FIGURE_4 = "3, figure 2", "4, figure 4"
OF_LOSSES = "loss over that of descent"
#: What is claimed, by experiment and id, in the order of judging.
SENTENCES = tomllib.loads((Path(__file__).parent / "data" / "sentences.toml").read_text(encoding="utf-8"))
told = telling(SENTENCES["gradient_descent"])


def of(table: DataFrame, what: str, system: str = "one layer") -> DataFrame:
    """The rows of a quantity."""
    return table[(table.what == what) & (table.system == system)]


def share(rows: DataFrame) -> Series:
    """The model's number over descent's."""
    return rows.model / rows.descent


def alike(rows: DataFrame, id: str, what: str, section: str = FIGURE_2, **more: Any) -> Claim:
    """A claim on the model's number over descent's."""
    return told(Evidence(rows, section), id, share(rows), what, **more)


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
    rows, what = of(table, "cosine of sensitivities"), "mean cosine of sensitivities"
    yield told(Evidence(rows, FIGURE_2), "sensitivities_point_alike", rows.model, what, at_least=0.99)
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
    both = Evidence(table[table.system.str.startswith("two layers")], FIGURE_4, source="paper")
    shares = [number for rows in plain for number in share(rows)]
    yield told(both, "two_beat_two_steps", shares, "loss over that of two steps", below=1.0)
    what, looped = "loss over that of GD++", of(table, "loss against GD++", "two layers, looped")
    yield alike(looped, "looped_is_gd_plus_plus", what, FIGURE_4, within=around(1.0, 0.05))
    own = of(table, "loss against GD++", "two layers")
    yield alike(own, "own_weights_are_no_worse_than_gd_plus_plus", what, FIGURE_4, at_most=1.02)


def controls(table: DataFrame) -> Iterator[Claim]:
    """Weights as drawn, and labels that belong to other examples: neither gives descent."""
    rows, what = of(table, "cosine of sensitivities", "untrained"), "mean cosine of sensitivities"
    worse, within = bound(OF_LOSSES, share(of(table, "loss", "untrained")), at_least=1.5), between(-0.3, 0.3)
    yield told(Evidence(rows, "ours"), "untrained_is_no_descent", rows.model, what, within=within, also=[worse])
    rows, what = of(table, "loss with shuffled labels"), "loss over that of predicting 0"
    yield told(Evidence(rows, "ours"), "shuffled_labels_teach_nothing", rows.model / rows.zero, what, at_least=1.0)
