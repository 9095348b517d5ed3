"""`hopscope build`: what it writes is a run like any other, and says what it is."""

from __future__ import annotations

import json

import pytest

from hopscope.cli import main
from hopscope.runs.run import load
from tests.pictures import drawn_once  # noqa: F401


def test_a_build_is_shown_and_drawn_like_a_trained_run(tmp_path, capsys):
    folder = tmp_path / "b"
    assert main(["build", "2", "--layers", "4", "--seed", "3", "--out", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "├─H0─" in said and "by build" in said and "solved: x1, x2" in said
    assert main(["show", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["done"] and shown["loss"] < 0.01 and shown["config"]["origin"]["algorithm"] == "doubling"
    assert main(["draw", str(folder)]) == 0
    assert {"attention.svg", "role_attention.svg", "schedule.svg"} <= {p.name for p in (folder / "pictures").iterdir()}


def test_json_has_the_truth_and_the_file_too(tmp_path, capsys):
    folder = tmp_path / "b"
    assert main(["build", "1", "--out", str(folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["truth"] == json.loads((folder / "truth.json").read_text())
    words = [f"L{p['layer']}H{p['head']} {p['query']}->{p['key']}" for p in printed["truth"]["circuits"]["uniform"][0]]
    assert words == ["L0H0 value[1]->key[1]", "L1H0 query->value[1]"]


def test_the_same_command_again_finds_the_build(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["build", "1", "--task", "symbolic_retrieval"]) == 0
    [folder] = (tmp_path / "runs").iterdir()
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    assert main(["build", "1", "--task", "symbolic_retrieval"]) == 0
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before
    assert load(folder).task.name() == "symbolic_retrieval"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["0"], "; got 0"),
        (["2", "--algorithm", "doublng"], "did you mean 'doubling'"),
        (["2", "--layers", "1"], "needs 3 layers"),
        (["2", "--d-vocab", "99"], "--d-vocab is for symbolic_retrieval"),
        (["2", "--order", "shuffled"], "one order"),
        (["2", "--order", "1,3"], "every step from 1 to 2"),
        (["2", "--twins", "1"], "can have a twin"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path, capsys, arguments, words):
    assert main(["build", *arguments, "--out", str(tmp_path / "b")]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not (tmp_path / "b").exists()
