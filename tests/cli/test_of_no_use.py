"""Options that would say nothing are refused: what somebody wrote is never ignored."""

from __future__ import annotations

import shlex

import pytest

from hopscope.cli import main

WORDS = {
    "heads --circuit --tests 9": "--tests has no effect with --circuit",
    "heads --needles --hops 2": "--hops has no effect with --needles",
    "heads --needles --formulation kingdoms": "--formulation has no effect with --needles",
    "heads --needles --circuit": "--circuit and --needles are two studies",
    "explore demo --export page.html --port 5": "--port has no effect with --export",
    "report --studies --paper": "--paper and --studies are different reports",
    "report --json --html page.html": "--html and --json are different reports",
    "runs . --yes": "--yes says that --delete need not ask",
    "evaluate --model known:oracle --timeout 3": "--timeout is for models at an address",
    "evaluate --model known:oracle --endpoint-model x": "--endpoint-model is for models at an address",
    "evaluate --model known:oracle --first-token": "--first-token is for models at an address",
    "evaluate --model known:oracle --dtype float16": "--dtype is for models in this process",
    "evaluate --model known:oracle --shots 3": "--shots is for the layout few_shot",
    "evaluate --model known:oracle --temperature 1": "--temperature is for the protocol resample",
    "evaluate --model known:oracle --max-tokens 5": "--max-tokens is for protocols in which the model writes",
    "evaluate --model known:oracle --benchmark induction_bench --protocol log_likelihood --max-tokens 5": (
        "--max-tokens is for protocols in which the model writes"
    ),
}


@pytest.mark.parametrize("line", WORDS)
def test_an_option_that_would_say_nothing_is_refused(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert WORDS[line] in said.err and not said.out and len(said.err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["results"]


@pytest.mark.parametrize(
    "line", ["demo --out=", "reproduce fig4 --results=", "draw demo --out=", "report --html=", "runs ''", "verify ''"]
)
def test_an_empty_path_is_not_the_folder_one_stands_in(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)) == 2
    said = capsys.readouterr()
    assert "an empty path names no file or folder" in said.err and len(said.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
