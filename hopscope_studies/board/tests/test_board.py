"""Tests of the board: rows measured again, the exact minimum depth, and the commands that train rows."""

from __future__ import annotations

import json
import shlex

import pytest

from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core.settings import BadInput
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run, load
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.loop import train
from hopscope_studies.board.rerun import losses
from hopscope_studies.board.row import LARGEST, ROWS, Row, add, hops_learnt, row_of, rows_in

EVERY = rows_in()


@pytest.fixture(params=EVERY, ids=lambda row: row.name)
def row(request) -> Row:
    return request.param


def test_there_are_twenty():
    assert len(EVERY) >= 20


def test_a_row_run_again_has_learnt_what_it_states(row):
    """On 256 fresh sequences a loss differs from that on 4,096 others by less than a tenth of a guess's loss."""
    again = losses(row, 256)
    assert hops_learnt(again) == row.as_dict()["hops"]
    assert all(abs(loss - row.hop_losses[hop]) < 0.05 for hop, loss in again.items())


def test_no_row_is_below_the_exact_depth(row):
    assert row.architecture.n_layers >= row.least_layers()


def test_a_row_is_small_and_whole(row):
    files = [file for file in row.run.path.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < LARGEST
    assert row.run.verified


def test_its_command_is_its_recipe(row, monkeypatch, tmp_path, capsys):
    """The configuration that a row's command would train is the row's own; training itself is stopped."""
    seen: list[Config] = []

    def stopped(config, *_, **__):
        seen.append(config)
        raise BadInput("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hopscope.cli.commands.train.train", stopped)
    assert main(shlex.split(row.command())[1:]) == 2
    assert [config.identity for config in seen] == [row.run.config.identity]


# The command -----------------------------------------------------------------------------------------------------


def test_rows_are_ranked_by_hops_then_by_what_is_asked(capsys):
    for by in ("layers", "parameters", "sequences", "seconds"):
        assert main(["board", "--json", "--by", by]) == 0
        ranked = json.loads(capsys.readouterr().out)
        keys = [(-value["hops"], value[by]) for value in ranked]
        assert keys == sorted(keys) and len(ranked) == len(EVERY)


def test_categories_leave_rows_out(capsys):
    assert main(["board", "--json", "--no-curriculum", "--no-prior"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert {(value["curriculum"], value["prior"]) for value in kept} <= {("none", "none")}


def test_a_run_of_ones_own_stands_among_the_rows(capsys):
    assert main(["board", "packaged", "--json"]) == 0
    names = [value["row"] for value in json.loads(capsys.readouterr().out)]
    assert "packaged" in names and len(names) == len(EVERY) + 1


def test_losses_can_be_measured_anew(capsys, monkeypatch):
    """With `--rerun`, the printed losses are measured, not read from the report."""
    monkeypatch.setattr("hopscope_studies.board.rerun.losses", lambda row, n: {"x1": 0.5})
    assert main(["board", "--json", "--rerun", "64"]) == 0
    assert {value["loss"] for value in json.loads(capsys.readouterr().out)} == {0.5}


# What belongs there ----------------------------------------------------------------------------------------------


def test_hops_are_counted_without_a_gap():
    assert hops_learnt({"x1": 0.01, "x2": 0.5, "x3": 0.01}) == 1
    assert hops_learnt({"x1": 0.2, "x2": 0.01}) == 0
    assert hops_learnt({"x1": 0.0, "x2": 0.099}) == 2
    assert hops_learnt({"x3": 0.0}) == 3  # without a curriculum
    assert hops_learnt({"x1": float("nan")}) == 0


def test_a_row_answers_as_its_run_does_but_for_float16(tmp_path):
    """The packaged run is put on a temporary board; its losses stay the same except for float16 rounding."""
    row = add(load("packaged"), "mine", tmp_path)
    assert [each.name for each in rows_in(tmp_path)] == ["mine"]
    assert row.run.config.identity == load("packaged").config.identity
    assert all(abs(loss - row.hop_losses[hop]) < 0.01 for hop, loss in losses(row, 1024).items())
    with pytest.raises(BadInput, match="there is a row mine already"):
        add(load("packaged"), "mine", tmp_path)
    with pytest.raises(BadInput, match="a row is named by letters"):
        add(load("packaged"), "../mine", tmp_path)


def tiny(folder, task=None, **model) -> Run:
    shape = Architecture(n_layers=1, d_model=8, n_heads=1, **model)
    return train(Config(task or Retrieval(n_hops=1), shape, Training(steps=0, batch=4)), folder)


def test_other_problems_and_unfinished_runs_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="another problem than the board's, retrieval with 4 chains; it has n_chains 2"):
        row_of(tiny(tmp_path / "a", Retrieval(n_hops=1, n_chains=2)))
    unfinished = tiny(tmp_path / "b")
    (unfinished.path / "DONE").unlink()
    with pytest.raises(BadInput, match="is not finished"):
        row_of(Run(unfinished.path))
    with pytest.raises(BadInput, match="there are no rows"):
        rows_in(tmp_path / "nothing")


def test_weights_that_are_too_large_leave_nothing(tmp_path, monkeypatch):
    run = tiny(tmp_path / "a")
    monkeypatch.setattr("hopscope_studies.board.row.LARGEST", 100)
    with pytest.raises(BadInput, match="a row may have 2 MB"):
        add(run, "large", tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_rows_lie_where_they_are_looked_for():
    assert {row.run.path.parent for row in EVERY} == {ROWS}
