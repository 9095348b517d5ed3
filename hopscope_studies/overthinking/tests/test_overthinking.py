"""Tests of `overthinking`: claims that hold and that fail on made-up reports; texts and toy models by hand."""

from __future__ import annotations

import copy
import io
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")

import torch

from hopscope.core.settings import BadInput
from hopscope_studies.overthinking.experiments import overthinking
from hopscope_studies.overthinking.figure import figure
from hopscope_studies.overthinking.measured import Toy, toy
from hopscope_studies.overthinking.prompts import ITEMS, KINDS, words_of, written
from hopscope_studies.overthinking.reading import demonstrations, toy as of_toys
from hopscope_studies.overthinking.tests import made_up
from hopscope_studies.overthinking.tests.made_up import CHOSEN, REPORT, TOY, lens, scored, silenced
from hopscope_studies.overthinking.words import SETS

# Texts


def test_texts_say_each_word_once_and_ask_each_class_equally_often():
    words = words_of("unnatural", 12, 0)
    for half in (words.part(0, 6), words.part(6, 12)):
        counts = torch.nn.functional.one_hot(half.classes).sum(0)
        assert counts.tolist() == [[2, 2, 2]] * ITEMS
    for row, classes in zip(words.words, words.classes.tolist(), strict=True):
        assert len(set(row)) == ITEMS
        assert all(word in SETS["unnatural"][words.labels[number]] for word, number in zip(row, classes, strict=True))
    assert words_of("unnatural", 12, 0).words == words.words != words_of("unnatural", 12, 1).words


def test_labels_are_true_the_next_one_half_or_any():
    words = words_of("household", 60, 0)
    away = {kind: (words.shown(kind) - words.classes) % 3 for kind in KINDS}
    assert set(away["true"].flatten().tolist()) == {0}
    assert set(away["permuted"].flatten().tolist()) == {1}
    shares = [float((away["half"] == number).float().mean()) for number in range(3)]
    assert shares == pytest.approx([0.5, 0.5, 0], abs=0.05)
    shares = [float((away["random"] == number).float().mean()) for number in range(3)]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.05)


def test_a_text_by_hand():
    text, starts = written(["otter", "oak"], ["animal", "sport"])
    assert text == "otter: animal\noak: sport"
    assert [text[start:].split("\n")[0] for start in starts] == ["animal", "sport"]


def test_words_that_do_not_fit_are_refused():
    with pytest.raises(BadInput, match="there is no set of words 'colours'; choose unnatural or household"):
        words_of("colours", 6, 0)
    with pytest.raises(BadInput, match="must be a multiple of 6; got 8"):
        words_of("unnatural", 8, 0)


# Claims


def table(
    report: dict[str, Any] = REPORT,
    other: dict[str, Any] = REPORT,
    hand: dict[str, Any] | None = None,
    idle: dict[str, Any] | None = None,
    toys: dict[str, Any] = TOY,
) -> DataFrame:
    """Rows of two seeds, other words, controls and toy models, as read from table.csv."""
    hand = hand or REPORT | lens((1 / 3, 1, 1, 1, 1, 1, -0.1)) | scored(1.0, chosen=("L3H0",)) | exactly_all()
    rows = []
    for run, seed, part, found in (
        ("a", 0, "language", demonstrations(report)),
        ("b", 1, "language", demonstrations(REPORT)),
        ("c", 0, "other words", demonstrations(other)),
        ("d", 0, "by hand", demonstrations(hand)),
        ("e", 0, "untrained", demonstrations(idle or REPORT | lens(made_up.TRUE))),
        ("f", 0, "toy", of_toys(toys)),
    ):
        about = {"run": run, "version": "v", "seed": seed, "model": "m", "words": "w", "part": part}
        rows += [{**about, "other": "", "step": None, **one} for one in found]
    return pandas.read_csv(io.StringIO(DataFrame(rows).round({"value": 5}).to_csv(index=False)))


def exactly_all() -> dict[str, Any]:
    """A report in which silencing the head removes the whole gap, and nothing else."""
    return silenced() | {"share": made_up.number(1.0), "true_lost": made_up.number(0.0)}


def verdicts(**reports: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in overthinking.claims(table(**reports))}


def test_all_hold_where_the_made_up_heads_do_all():
    found = verdicts()
    assert list(found) == claim_ids("overthinking")
    assert {id for id, verdict in found.items() if verdict != "holds"} == set()


def test_numbers_are_those_of_the_report():
    found = {claim.id: claim.number for claim in overthinking.claims(table())}
    assert found["false_demonstrations_mislead"] == pytest.approx(0.9 - 0.2 - 0.01)  # the interval's lower end
    assert found["a_consistent_lie_misleads_more"] == pytest.approx(0.5 - 0.2 - 0.01)
    assert found["the_gap_comes_late"] == pytest.approx(4 / 6, abs=1e-5)  # 0.4 of 0.7 after the fourth of six
    assert found["false_labels_overthink"] == pytest.approx(0.6 - 0.2)
    assert found["false_induction_heads"] == pytest.approx(0.5 - 0.1)
    assert found["they_are_induction_heads"] == 4 / 5
    assert found["silencing_narrows_the_gap"] == pytest.approx(0.4 - 0.05 - 0.01)
    assert found["more_than_random_on_average"] == pytest.approx(0.4 - 0.01 - 0.05)
    assert found["as_much_as_in_gpt_j"] == pytest.approx(0.4 / 0.7, abs=1e-5)
    assert found["sharper_in_the_toy"] == pytest.approx(0.95 - 0.4 / 0.7 - 0.01, abs=1e-5)


def worse() -> dict[str, Any]:
    """A report for which no claim holds: the gap exists from the first layer on, and no head carries it."""
    early = lens((1 / 3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.9), random=0.9)
    early["critical"], early["lens"]["true"][-1] = made_up.number(1), made_up.number(0.33)
    heads = scored(0.1, 0.2, ("L0H0", "L0H1", "L0H2", "L1H0", "L3H0"), shared=1)
    return copy.deepcopy(REPORT) | early | heads | silenced(0.05, 0.1, true_lost=0.2, late=-0.1)


def test_each_fails_where_nothing_of_the_kind_is_so():
    bad = worse() | {"gap": [made_up.number(0.1), *worse()["gap"][1:]]}
    dull = {"seeds": [{**one, "share": 0.05} for one in TOY["seeds"]]}
    found = verdicts(report=bad, other=bad, hand=REPORT, idle=REPORT, toys=dull)
    assert set(found.values()) == {"fails"}, {id for id, verdict in found.items() if verdict != "fails"}


def test_heads_of_other_words_are_counted_within_a_model():
    some = ("L3H0", "L3H1", "L0H0", "L0H1", "L0H2")
    found = {claim.id: claim for claim in overthinking.claims(table(other=REPORT | scored(chosen=some)))}
    assert found["the_same_heads_in_other_words"].number == 2 / 5
    assert found["the_same_heads_in_other_words"].verdict == "fails"


# The toys


def test_a_toy_by_hand():
    rows = [
        *(("lens", "permuted", step, value) for step, value in enumerate((0.5, 0.9, 0.2))),
        *(("whole", "true", 0, 1.0), ("whole", "permuted", 0, 0.2)),
        *(("without heads", "true", 0, 0.9), ("without heads", "permuted", 0, 0.7)),
        *(("critical", "layers", 0, 2), ("critical", "depth", 0, 2)),
    ]
    given = DataFrame(rows, columns=["kind", "name", "step", "value"]).assign(
        condition="trained", scale="cpu", seed=3, run="a"
    )
    idle = given.assign(condition="untrained", value=7.0)
    (found,) = toy(pandas.concat([given, idle]))["seeds"]
    assert found == pytest.approx(
        {"seed": 3, "true": 1, "permuted": 0.2, "best": 0.9, "critical": 1, "share": 0.75, "true_lost": 0.1}
    )


def test_the_committed_table_is_read():
    found = Toy().report()["seeds"]
    assert [one["seed"] for one in found] == list(range(8))
    assert sum(one["share"] for one in found) / 8 == pytest.approx(0.955, abs=1e-3)  # as that study's page says
    assert {one["critical"] for one in found} == {0.5, 0.75}


def test_without_the_table_it_says_what_to_do():
    with pytest.raises(BadInput, match="reproduce false_demonstrations --scale cpu"):
        Toy(folder="elsewhere").report()


def test_the_figure_shows_layers_heads_and_toys():
    shown = figure(table())
    titles = [ax.get_title("left") for ax in shown.axes]
    assert titles[0] == "After each layer, m" and titles[2] == "With these silenced"
    named = {text.get_text() for text in shown.axes[1].texts}
    assert named == set(CHOSEN)
