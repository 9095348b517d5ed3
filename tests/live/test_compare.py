"""Saved circuits are loaded as they were written, and compared path by path and by kinds of paths."""

from __future__ import annotations

import json

import pytest

import hopscope
from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged

PREVIOUS, FIRST, SECOND = "L0H0 next->heard", "L1H0 query->next", "L1H1 query->next"


def saved(folder, *paths, verdict="circuit"):
    folder.mkdir()
    values = []
    for text in paths:
        where, ends = text.split(" ")
        query, key = ends.split("->")
        values.append({"layer": int(where[1]), "head": int(where[3]), "query": query, "key": key, "strength": 0.5})
    (folder / "circuit.json").write_text(json.dumps({"paths": values, "verdict": verdict, "reason": "as told"}))
    return hopscope.load_circuit(folder)


def test_what_two_circuits_share_is_told(tmp_path):
    a, b = saved(tmp_path / "a", PREVIOUS, FIRST), saved(tmp_path / "b", PREVIOUS, SECOND)
    found = hopscope.compare(a, b)
    assert list(map(str, found.both)) == [PREVIOUS]
    assert [list(map(str, some)) for some in found.only] == [[FIRST], [SECOND]]
    assert found.rows == (1, 3) and found.same_algorithm
    assert "kinds of paths, the same in both: next->heard, query->next" in str(found)


def test_another_number_of_heads_is_another_algorithm(tmp_path):
    one, two = saved(tmp_path / "a", PREVIOUS, FIRST), saved(tmp_path / "b", PREVIOUS, FIRST, SECOND, verdict="partial")
    found = hopscope.compare(one, two)
    assert not found.same_algorithm and found.kinds_only == ((), ("query->next #2",))
    assert "verdicts: circuit and partial" in str(found) and "in one alone: none and query->next #2" in str(found)


def test_a_loaded_circuit_says_what_was_saved(tmp_path):
    loaded = saved(tmp_path / "a", PREVIOUS, FIRST)
    assert str(loaded) == f"verdict: circuit (as told)\n{PREVIOUS}\n{FIRST}"
    assert loaded.table()[["layer", "strength"]].values.tolist() == [[0, 0.5], [1, 0.5]]
    (tmp_path / "a" / "words.txt").write_text("In layer 0 …\n", encoding="utf-8")
    assert str(hopscope.load_circuit(tmp_path / "a")) == "In layer 0 …"


def test_a_loaded_circuit_is_shown_with_its_picture_and_nothing_of_it_is_obeyed(tmp_path):
    saved(tmp_path / "a", PREVIOUS)
    (tmp_path / "a" / "circuit.png").write_bytes(b"a picture")
    (tmp_path / "a" / "words.txt").write_text("<script>", encoding="utf-8")
    page = hopscope.load_circuit(tmp_path / "a")._repr_html_()
    assert "base64,YSBwaWN0dXJl" in page and "&lt;script&gt;" in page and "<td>heard</td>" in page


def test_what_is_no_circuit_is_told_in_one_sentence(tmp_path):
    with pytest.raises(BadInput, match=r"has no circuit\.json; save a circuit there first"):
        hopscope.load_circuit(tmp_path)
    with pytest.raises(BadInput, match="only circuits can be compared, found or loaded; got a int"):
        hopscope.compare(3, 4)
    (tmp_path / "circuit.json").write_text('{"paths": []}')
    with pytest.raises(Damaged, match="holds no verdict"):
        hopscope.load_circuit(tmp_path)
    (tmp_path / "circuit.json").write_text('{"paths": 3}')
    with pytest.raises(Damaged, match="holds no list of paths"):
        hopscope.load_circuit(tmp_path)
    (tmp_path / "circuit.json").write_text("{")
    with pytest.raises(Damaged):
        hopscope.load_circuit(tmp_path)
