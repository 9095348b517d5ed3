"""Tests of `real_hop`: claims that hold and that fail on made-up reports."""

from __future__ import annotations

import copy
import io
import json
import sys
from typing import Any

import pandas
import pytest
from pandas import DataFrame

from hopscope.experiments.results import claim_ids

pytest.importorskip("torch")

from hopscope.core.settings import BadInput
from hopscope_studies.real_hop.claims import deadlines
from hopscope_studies.real_hop.experiments import real_hop
from hopscope_studies.real_hop.figure import figure, readable
from hopscope_studies.real_hop.language.picture import Shown, hop_circuit, spots
from hopscope_studies.real_hop.measured import OneHop
from hopscope_studies.real_hop.reading import one_hop, two_hops
from hopscope_studies.real_hop.tests.made_up import ONE_HOP, TWO_HOPS, answer, number, set_of


def table(one: dict[str, Any] = ONE_HOP, two: dict[str, Any] = TWO_HOPS, other: dict[str, Any] = ONE_HOP) -> DataFrame:
    """Rows of two seeds of the circuit, one of two hops, and one other wording, as read from table.csv."""
    rows = []
    for run, seed, part, layout, found in (
        ("a", 0, "one hop", "code", one_hop(one)),
        ("b", 1, "one hop", "code", one_hop(ONE_HOP)),
        ("c", 0, "two hops", "code", two_hops(two)),
        ("d", 0, "other wording", "raw", one_hop(other)),
    ):
        about = {"run": run, "version": "v", "seed": seed, "model": "m", "formulation": "equations", "layout": layout}
        rows += [{**about, "part": part, "other": "", "step": None, **row} for row in found]
    return pandas.read_csv(io.StringIO(DataFrame(rows).to_csv(index=False)))


def verdicts(**reports: dict[str, Any]) -> dict[str, str]:
    return {claim.id: claim.verdict for claim in real_hop.claims(table(**reports))}


def test_all_hold_where_one_head_does_the_hop():
    found = verdicts()
    assert list(found) == claim_ids("real_hop")
    assert set(found.values()) == {"holds"}


def test_numbers_are_those_of_the_reports():
    found = {claim.id: claim.number for claim in real_hop.claims(table())}
    assert found["few_nodes_keep_it"] == 1.0
    assert found["it_is_lost_without_the_heads"] == 0.9
    assert found["smaller_than_acdc"] == 7  # nine nodes against two
    assert found["gradients_alone_keep_less"] == pytest.approx(0.9)  # 1.0 against EAP's 0.1
    assert found["perfect_lookups_suffice"] == pytest.approx(7.5)  # 1.5 of 0.2
    assert found["two_hops_fail"] == 0


def worse_circuit() -> dict[str, Any]:
    """A circuit for which no claim holds."""
    one = copy.deepcopy(ONE_HOP)
    one["answers"]["metric"] = number(0.01)
    one["nodes"] = [{"node": "a0.h3", "score": 0.1}]
    one["judged"] = {
        "nodes": set_of(20, 0.5, 0.5),
        "heads": set_of(19, 0.5, 0.5),
        "places": set_of(20, 0.5, 0.5),
        "edges": {"size": 20, "of": 30, "kept": number(0.5), "others": number(0.1)},
    }
    one["random"] = [set_of(20, 0.5, 0.5)]
    one["random_edges"] = [0.5]
    one["table"][0] |= set_of(20, 0.05, 0.5)
    one["table"][1] |= set_of(9, 1.0, 1.0)
    for name in ("louder", "quieter"):
        one["change"][name]["judged"] = answer(0.005, 0.3)
    one["change"]["perfect"]["all"] |= answer(0.01, 0.3)
    return one


def worse_two_hops() -> dict[str, Any]:
    """A report in which two hops are done, x_1 is at the query early and not late, and repeated layers help."""
    two = copy.deepcopy(TWO_HOPS)
    two["answers"]["two_hops"] = answer(0.2, 0.4)
    for one in two["probes"]:
        one.update(number(0.9 if one["layer"] < 3 else 0.25))
    two["back_patching"]["judged"] = answer(0.5, 0.6)
    return two


def test_each_fails_where_nothing_of_the_kind_is_so():
    nothing = {"answers": ONE_HOP["answers"] | {"metric": number(0.01)}}
    found = verdicts(one=worse_circuit(), two=worse_two_hops(), other=nothing)
    undecided = {"same_nodes_in_other_words"}  # there is no other wording in which the hop is done
    assert {id for id, verdict in found.items() if verdict == "undecided"} == undecided
    held = {id for id, verdict in found.items() if verdict == "holds"}
    assert held == {"given_the_first_hop_it_does_the_second"}
    late = copy.deepcopy(TWO_HOPS)
    late["handed_in"] = [{"layer": layer, **answer(0.0, 0.25)} for layer in range(5)]
    assert verdicts(two=late)["given_the_first_hop_it_does_the_second"] == "fails"
    other = copy.deepcopy(ONE_HOP) | {"nodes": [{"node": "a0.h3", "score": 0.1}]}
    assert verdicts(other=other)["same_nodes_in_other_words"] == "fails"


def test_the_deadline_is_the_last_layer_that_still_gives_half():
    assert deadlines(table()[lambda rows: rows.part == "two hops"]) == [2]


def test_the_figure_shows_the_first_seeds_circuit():
    drawn = figure(table())
    words = {text.get_text() for text in drawn.axes[0].texts}
    assert {"MLP 0", "L1H0", "embedding", "answer", "a", ":"} <= words


def test_places_stand_by_token_and_layer():
    places = ["m0@query", "a3.h1@answer", "a3.h2@answer", "m3@answer", "a5.h0@answer"]
    edges = [("input@query", "m0@query", "", 0.5), ("m0@query", "a3.h1@answer", "v", 0.2)]
    shown = Shown(places, edges, {"query": "c", "ask": ")", "answer": ":"})
    where, columns, levels = spots(shown)
    assert list(columns) == ["query", "answer"]  # nothing is done at the token between
    assert levels == {0: 0.0, 3: 1.0, 5: 2.0}
    assert where["m0@query"][0] < where["a3.h1@answer"][0] < where["a3.h2@answer"][0] < where["m3@answer"][0]
    picture = hop_circuit(shown, "a title")
    arrows = [text for text in picture.axes[0].texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 2


def test_blank_tokens_are_quoted():
    assert (readable("' output'"), readable("' '"), readable(r"'\n'")) == ("output", "' '", r"'\n'")


def test_an_invented_report_lies_with_the_tests_and_is_asked_for_where_there_are_none(tmp_path, monkeypatch):
    OneHop("made_up").do(tmp_path, lambda: False)
    assert json.loads((tmp_path / "circuit.json").read_text()) == json.loads(json.dumps(ONE_HOP))
    monkeypatch.setitem(sys.modules, "hopscope_studies.real_hop.tests.made_up", None)
    with pytest.raises(BadInput, match=r"from the tests of hopscope_studies\.real_hop, which are not installed"):
        OneHop("made_up").do(tmp_path, lambda: False)
