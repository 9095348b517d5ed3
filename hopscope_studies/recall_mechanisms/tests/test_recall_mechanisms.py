"""Tests of `recall_mechanisms`: claims that hold and that fail on made-up reports; facts and toy models by hand."""

from __future__ import annotations

import io
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")

from hopscope.core.settings import BadInput
from hopscope_studies.recall_mechanisms.experiments import recall_mechanisms
from hopscope_studies.recall_mechanisms.figure import figure
from hopscope_studies.recall_mechanisms.measured import Toy, toy
from hopscope_studies.recall_mechanisms.reading import recalled, toy as of_toys
from hopscope_studies.recall_mechanisms.tests import made_up
from hopscope_studies.recall_mechanisms.tests.made_up import (
    REPORT,
    TOPIC,
    TOY,
    function,
    instead,
    last_layer,
    lens,
    number,
    parts,
    topic,
)
from hopscope_studies.recall_mechanisms.words import RELATIONS

# Facts


def test_facts_are_told_apart():
    """No subject comes twice in a relation and no answer does, and no example in a sentence is asked about."""
    answers = {name: {fact.answer for fact in one.facts} for name, one in RELATIONS.items()}
    for name, one in RELATIONS.items():
        assert len(answers[name]) == len({fact.subject for fact in one.facts}) == len(one.facts), name
        for sentence in one.sentences:
            said = set(sentence.replace(",", "").split())
            assert said.isdisjoint(answers[name] | {fact.subject for fact in one.facts}), (name, sentence)
            assert sentence.count("{}") == 1 and not sentence.startswith("{}")
    together = [answer for some in answers.values() for answer in some]
    assert len(set(together)) == len(together)  # the answer tells the relation


def test_a_capital_is_in_the_group_of_its_country():
    groups = {(name, fact.subject): fact.group for name in ("capital", "country") for fact in RELATIONS[name].facts}
    assert groups["capital", "France"] == groups["country", "Paris"] == "France"


# Claims


def hand() -> dict[str, Any]:
    """The numbers of the hand-set model."""
    found = REPORT | {
        "topic": topic(share=1.0),
        "instead": instead(exchanged=1.0),
        "function": function(answer=(11 / 12) ** 0.5),
        "last_layer": last_layer(negative=1.0),
    }
    found["function"]["regression"]["gain"] = number(1.0)
    return found


def idle() -> dict[str, Any]:
    """The numbers of an untrained model."""
    return REPORT | {"function": function(adds=0.0, answer=0.0), "last_layer": last_layer(adds=0.0, negative=0.5)}


def table(report: dict[str, Any] = REPORT, by_hand: dict[str, Any] | None = None, untrained: Any = None) -> DataFrame:
    """Rows of two seeds, controls and toy models, as read from table.csv."""
    rows = []
    for run, seed, part, found in (
        ("a", 0, "language", recalled(report)),
        ("b", 1, "language", recalled(report)),
        ("c", 0, "by hand", recalled(by_hand or hand())),
        ("d", 0, "untrained", recalled(untrained or idle())),
        ("e", 0, "toy", of_toys(TOY)),
    ):
        about = {"run": run, "version": "v", "seed": seed, "model": "m", "part": part}
        rows += [{**about, "other": "", "step": None, **one} for one in found]
    return pandas.read_csv(io.StringIO(DataFrame(rows).round({"value": 5}).to_csv(index=False)))


def verdicts(**reports: Any) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in recall_mechanisms.claims(table(**reports))}


def test_all_hold_where_the_made_up_parts_do_all():
    found = verdicts()
    assert list(found) == claim_ids("recall_mechanisms")
    assert {id for id, verdict in found.items() if verdict != "holds"} == set()


def test_numbers_are_those_of_the_report():
    found = {claim.id: claim.number for claim in recall_mechanisms.claims(table())}
    assert found["enough_is_known"] == 30
    assert found["ten_heads_write_the_topic"] == pytest.approx(0.7)
    assert found["topic_heads_look_at_the_subject"] == pytest.approx(0.5 - 0.01 - 0.1)
    assert found["the_topic_comes_first"] == 4 - 2.5
    assert found["topic_heads_are_needed"] == pytest.approx(0.6 - 0.1 - 0.01)
    assert found["mlps_apply_it_to_the_argument"] == pytest.approx(0.8 - 0.1 - 0.01)
    assert found["a_late_mlp_adds_the_answer"] == pytest.approx(3 - 0.01)
    assert found["heads_explain_it"] == pytest.approx(0.3)
    assert found["it_erases_and_amplifies"] == 1
    assert found["the_last_layer_suppresses"] == pytest.approx(0.9)
    assert found["the_kind_before_the_fact"] == pytest.approx(5 - 3 - 0.1)
    assert found["mlps_add_more_than_heads"] == pytest.approx(0.7 - 0.01)


def test_each_fails_where_nothing_of_the_kind_is_so():
    bad = REPORT | {
        "known": [{**one, "right": 3} for one in made_up.KNOWN],
        "topic": topic(share=0.1, random=0.2, looks=0.1, even=0.2, over=-1),
        "instead": instead(0.1, 0.1, 0.1, random=0.2),
        "function": function(layer=1, adds=-1.0, read=-0.1, answer=-1.0, heads=(0.0, 0.0), intercept=-1.0),
        "last_layer": last_layer(adds=1.0, negative=0.2, halving=-0.1),
        "lens": lens(relation=5, subject=3),
        "parts": parts(mlps=0.3),
    }
    found = verdicts(report=bad, by_hand=REPORT, untrained=REPORT)
    assert set(found.values()) == {"fails"}, {id for id, verdict in found.items() if verdict != "fails"}


@pytest.mark.parametrize(
    ("changed", "id"),
    [
        ({"topic": topic(random=0.2)}, "ten_heads_write_the_topic"),
        ({"function": function(layer=2)}, "a_late_mlp_adds_the_answer"),
        ({"function": function(mixed=3.5)}, "a_late_mlp_adds_the_answer"),
        ({"function": function(heads=(-0.5, -0.5))}, "it_erases_and_amplifies"),
        ({"last_layer": last_layer(adds=0.5)}, "the_last_layer_suppresses"),
    ],
)
def test_every_bound_counts(changed, id):
    assert verdicts(report=REPORT | changed)[id] == "fails"


# The toys


def test_a_toy_by_hand():
    curve = DataFrame(
        {
            "run": "r", "seed": 3, "kind": "curve", "facts": "even", "scale": "cpu", "relations": 4, "answers": 8,
            "step": [0, 1, 2, 3], "relation_only": [1.4, 0.6, 0.0, 0.0], "subject_only": [2.1, 2.0, 1.1, 0.2],
        }
    )  # fmt: skip
    other = curve.assign(facts="anywhere", relation_only=0.0)
    cell = DataFrame([{"run": "s", "kind": "trade_off", "scale": "cpu", "attention": 256, "mlp": 512, "recall": 0.4}])
    found = toy(pandas.concat([curve, other, cell]))
    assert found["seeds"] == [{"seed": 3, "relation": 1, "subject": 3}]
    assert found["cells"] == [{"attention": 256, "mlp": 512, "recall": 0.4}]


def test_the_committed_table_is_read():
    found = Toy().report()
    assert sorted(one["seed"] for one in found["seeds"]) == [0, 1, 2, 3, 4]
    # As that study's page says: the plateau ends at about step 1,700, the middle phase some 2,000 steps later.
    assert all(1536 < one["relation"] < 1920 and 4032 < one["subject"] < 4800 for one in found["seeds"])
    recall = {(one["attention"], one["mlp"]): one["recall"] for one in found["cells"]}
    assert len(recall) == 16 and recall[2048, 0] > 0.99 > recall[1024, 0]


def test_without_the_table_it_says_what_to_do():
    with pytest.raises(BadInput, match="reproduce facts --scale cpu"):
        Toy(folder="elsewhere").report()


def test_the_figure_shows_layers_heads_shares_and_both_parts():
    shown = figure(table())
    titles = [ax.get_title("left") for ax in shown.axes]
    assert titles[0] == "What is added to the answer, m" and titles[2].startswith("With their outputs replaced")
    assert {text.get_text() for text in shown.axes[1].texts} == set(TOPIC)
