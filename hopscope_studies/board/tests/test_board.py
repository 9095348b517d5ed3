"""Tests of the board: rows measured again, the exact minimum depth, and the commands that train rows."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from hopscope.cli import main
from hopscope.configuration.config import Config, Training
from hopscope.core import outside
from hopscope.core.settings import BadInput
from hopscope.core.storage import enlist
from hopscope.models.transformer import Architecture
from hopscope.runs.integrity import check
from hopscope.runs.run import Run, load
from hopscope.tasks.retrieval import Retrieval
from hopscope.tasks.some_hops import SomeHops
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
    least, known = row.as_dict()["least"], row.architecture.rule.name() in ("softmax", "kv_shift")
    assert (row.architecture.n_layers >= least) if known else least is None


def test_a_row_is_small_and_whole(row):
    files = [file for file in row.run.path.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < LARGEST
    assert row.run.verified
    found = check(row.run.path)
    assert (found.state, found.faults, found.unverified) == ("whole", (), ())


def test_show_describes_a_row_though_it_has_no_curves(capsys):
    """A row has no metrics.jsonl: its losses are those of its report, and it has no logged rows."""
    [row] = [row for row in EVERY if row.name == "two_hops_muon"]
    assert main(["show", str(row.run.path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    losses = {words[0]: words[1] for words in lines if words and words[0] in row.hop_losses}
    assert losses == {hop: f"{loss:.4f}" for hop, loss in row.hop_losses.items()}
    assert ["training"] in [words[:1] for words in lines] and row.run.rows == []


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
    for by, then in {"layers": "layers", "parameters": "parameters", "sequences": "sequences", "hops": "loss"}.items():
        assert main(["board", "--json", "--by", by]) == 0
        ranked = json.loads(capsys.readouterr().out)
        keys = [(-value["hops"], value[then]) for value in ranked]
        assert keys == sorted(keys) and len(ranked) == len(EVERY)


def test_symbols_of_one_width_are_a_category(capsys):
    """Wide symbols are easier to tell apart, so the most hops are also ranked among rows of one width."""
    most = {}
    for d_symbol in (4, 16):
        assert main(["board", "--json", "--d-symbol", str(d_symbol)]) == 0
        ranked = json.loads(capsys.readouterr().out)
        assert {value["d_symbol"] for value in ranked} == {d_symbol}
        most[d_symbol] = ranked[0]["hops"]
    assert most == {4: 7, 16: 16}


@pytest.mark.parametrize("column", ["curriculum", "prior"])
def test_categories_leave_rows_out(capsys, column):
    assert main(["board", "--json", f"--no-{column}"]) == 0
    kept = sorted(value["row"] for value in json.loads(capsys.readouterr().out))
    unaided = sorted(row.name for row in EVERY if row.aids(column) == "none")
    assert kept == unaided and 0 < len(kept) < len(EVERY)


def test_a_run_of_ones_own_stands_among_the_rows(capsys):
    assert main(["board", "packaged", "--json"]) == 0
    names = [value["row"] for value in json.loads(capsys.readouterr().out)]
    assert "packaged" in names and len(names) == len(EVERY) + 1


def test_losses_can_be_measured_anew(capsys, monkeypatch):
    """With `--rerun`, the printed losses are measured, not read from the report."""
    monkeypatch.setattr("hopscope_studies.board.rerun.losses", lambda row, n: {"x1": 0.5})
    assert main(["board", "--json", "--rerun", "64"]) == 0
    assert {value["loss"] for value in json.loads(capsys.readouterr().out)} == {0.5}


@pytest.mark.parametrize(
    "option", [["--json"], ["--by", "hops"], ["--rerun", "64"], ["--d-symbol", "4"], ["--no-prior"], ["--how"]]
)
def test_options_of_the_table_are_refused_beside_add(option, tmp_path, capsys):
    """`--add` prints no table; it also writes nothing then."""
    before = sorted(ROWS.iterdir())
    assert main(["board", "packaged", "--add", "mine", *option]) == 2
    assert capsys.readouterr().err == f"hopscope: {option[0]} has no effect with --add; leave it out\n"
    assert sorted(ROWS.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--d-symbol", "5"], "symbols of 5 dimensions"),
        (["--no-curriculum", "--d-symbol", "16"], "symbols of 16 dimensions, no curriculum"),
    ],
)
def test_a_category_without_rows_is_said(options, words, capsys):
    assert main(["board", *options]) == 0
    out, err = capsys.readouterr()
    assert out == "" and err == f"hopscope: no row has {words}\n"
    assert main(["board", "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out) == []


# The fewest layers -------------------------------------------------------------------------------------------------


def test_the_fewest_layers_are_those_of_the_row_s_attention():
    """With KV shift three hops take ⌈log2(3+1)⌉ = 2 layers, where softmax attention takes ⌈log2(2·3+1)⌉ = 3."""
    by_name = {row.name: row.as_dict() for row in EVERY}
    kv_shift, plain = by_name["three_hops_2_layers_kv_shift"], by_name["three_hops_3_layers_prior"]
    assert (kv_shift["hops"], kv_shift["layers"], kv_shift["least"]) == (3, 2, 2)
    assert (plain["hops"], plain["layers"], plain["least"]) == (3, 3, 3)
    sixteen = by_name["sixteen_hops_looped_kv_shift"]
    assert (sixteen["hops"], sixteen["least"]) == (16, 5)


def test_without_a_known_bound_the_board_says_so(tmp_path, capsys):
    run = tiny(tmp_path / "a", attention="delta_rule")
    assert row_of(run).least_layers(3) is None
    assert main(["board", str(run.path)]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("a ")]
    assert "no bound known" in line


# Aids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "model", "training", "curriculum", "prior"),
    [
        ({}, {}, {}, "none", "none"),
        ({}, {"positions": "rotary(base=100)", "attention": "linear"}, {}, "none", "none"),
        ({"curriculum": "staged"}, {}, {}, "staged", "none"),
        ({}, {}, {"hop_every": 1}, "hop_every 1", "none"),
        ({}, {}, {"deep_supervision": 0.5}, "deep_supervision 0.5", "none"),
        ({}, {"attention": "kv_shift"}, {}, "none", "attention kv_shift"),
        ({}, {"look_back": 2.0}, {}, "none", "look_back 2.0"),
        ({"position_code": "pair"}, {}, {}, "none", "position_code pair"),
        ({}, {}, {"clamps": "L0H0 value[1]->key[1] ideal@0"}, "none", "clamps L0H0 value[1]->key[1] ideal@0"),
        (
            {},
            {"positions": "relative(start='L0 1:4')", "attention": "kv_shift"},
            {},
            "none",
            "attention's bias by distance starts at 4 for distance 1 in L0; attention kv_shift",
        ),
    ],
)
def test_every_aid_is_named(tmp_path, task, model, training, curriculum, prior):
    """Each of these trained as a row without a curriculum or a prior before the board looked at its settings."""
    shape = Architecture(n_layers=2, d_model=16, n_heads=1, **model)
    config = Config(
        Retrieval(n_hops=1, **{"curriculum": "none", **task}), shape, Training(steps=0, batch=4, **training)
    )
    values = row_of(train(config, tmp_path / "run")).as_dict()
    assert (values["curriculum"], values["prior"]) == (curriculum, prior)


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
    with pytest.raises(BadInput, match="another problem than the board's"):
        row_of(tiny(tmp_path / "easier", SomeHops(n_hops=2, last=1)))
    assert main(["build", "3", "--out", str(tmp_path / "built")]) == 0
    with pytest.raises(BadInput, match="weights that were not trained here"):
        row_of(Run(tmp_path / "built"))
    unfinished = tiny(tmp_path / "b")
    (unfinished.path / "DONE").unlink()
    with pytest.raises(BadInput, match="is not finished"):
        row_of(Run(unfinished.path))
    with pytest.raises(BadInput, match="there are no rows"):
        rows_in(tmp_path / "nothing")


def altered(folder: Path, losses: object) -> Path:
    """A copy of a committed row without its manifest, whose report states other losses."""
    place = Path(shutil.copytree(ROWS / "one_hop_muon", folder / "mine"))
    report = json.loads((place / "report.json").read_text())
    report.pop("hop_losses")
    (place / "manifest.json").unlink()
    (place / "report.json").write_text(json.dumps(report | ({} if losses is None else {"hop_losses": losses})))
    return place


def test_a_row_without_a_manifest_is_refused(tmp_path, capsys):
    """Its report could state any loss: here one that a model could well have."""
    place = altered(tmp_path, {"x1": 0.001})
    with pytest.raises(BadInput, match=r"mine/config\.json is in no manifest"):
        rows_in(tmp_path)
    assert main(["board", str(place)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "'hopscope verify --write'" in error


def test_a_row_whose_manifest_leaves_out_its_report_is_refused(tmp_path):
    place = altered(tmp_path, {"x1": 0.001})
    enlist(place, ["config.json", "sessions.jsonl"])
    with pytest.raises(BadInput, match=r"mine/report\.json is in no manifest"):
        rows_in(tmp_path)
    enlist(place, ["report.json"])
    with pytest.raises(BadInput, match=r"mine/checkpoints/step_00000400/manifest\.json is in no manifest"):
        rows_in(tmp_path)


@pytest.mark.parametrize(
    "losses", [{"x1": -3}, {"x1": -0.001}, {"x1": None}, {"banana": 0.01}, {"x1": 0.01, "x2": 0.01}, {}, None]
)
def test_losses_that_no_model_can_have_are_refused_in_one_sentence(losses, tmp_path, capsys):
    """Also where a manifest vouches for them: a mean squared error is at least 0, and the task asks one hop, x1."""
    place = altered(tmp_path, losses)
    Run(place).seal()
    assert main(["board", str(place)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "must state a loss of at least 0 for each hop asked (x1)" in error


def test_a_folder_without_a_config_is_no_row_and_is_named(tmp_path):
    shutil.copytree(ROWS / "one_hop_muon", tmp_path / "good")
    (shutil.copytree(ROWS / "one_hop_muon", tmp_path / "half") / "config.json").unlink()
    with pytest.raises(BadInput, match=r"half is not a run folder: it has no config\.json"):
        rows_in(tmp_path)
    (tmp_path / "half" / "DONE").unlink()
    with pytest.raises(BadInput, match="half is not a run folder"):
        rows_in(tmp_path)


def test_weights_that_are_too_large_leave_nothing(tmp_path, monkeypatch):
    run = tiny(tmp_path / "a")
    monkeypatch.setattr("hopscope_studies.board.row.LARGEST", 100)
    with pytest.raises(BadInput, match="a row may have 2 MB"):
        add(run, "large", tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_rows_lie_where_they_are_looked_for():
    assert {row.run.path.parent for row in EVERY} == {ROWS}


# Files of outsiders -------------------------------------------------------------------------------------------------


def attention_file(folder: Path) -> None:
    """Write an attention variant of an outsider's own, `theirs`, into a folder of variants."""
    (folder / "models" / "attention").mkdir(parents=True)
    lines = [
        "from dataclasses import dataclass",
        "from hopscope.models.attention.softmax import Softmax",
        "@dataclass(frozen=True)",
        "class Theirs(Softmax):",
        "    'Softmax attention by another name.'",
    ]
    (folder / "models" / "attention" / "theirs.py").write_text("\n".join(lines) + "\n")


def test_attention_of_ones_own_is_compared_but_not_added_from_a_folder(tmp_path, monkeypatch, capsys):
    """A run whose file is known only by --with stands among the rows; as a row nobody else could run it."""
    attention_file(tmp_path / "lab")
    monkeypatch.setenv(outside.VARIABLE, str(tmp_path / "lab"))
    run = str(tiny(tmp_path / "mine", attention="theirs").path)
    monkeypatch.delenv(outside.VARIABLE)
    theirs = ["--with", str(tmp_path / "lab"), "board"]
    assert main([*theirs, run, "--json"]) == 0
    [value] = [value for value in json.loads(capsys.readouterr().out) if value["row"] == "mine"]
    assert (value["attention"], value["prior"], value["least"]) == ("theirs", "attention theirs", None)
    assert main([*theirs, run, "--add", "mine"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "needs models/attention/theirs.py of a folder of yours" in error
    assert main(["board", run]) == 2
    assert "there is no 'theirs' in models.attention" in capsys.readouterr().err


def test_attention_of_ones_own_is_accepted_from_the_study_s_folder(tmp_path, monkeypatch):
    """With its file in the study's own folder, here a study of a package as ours is, a row is added and run again."""
    study = tmp_path / "their_studies" / "board"
    attention_file(study)
    (study / "experiments").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(outside, "ours", lambda: {"their_studies": tmp_path / "their_studies"})
    added = add(tiny(tmp_path / "mine", attention="theirs"), "mine", tmp_path / "rows")
    [row] = rows_in(tmp_path / "rows")
    assert row.run.config.identity == added.run.config.identity and row.as_dict()["attention"] == "theirs"
    assert set(losses(row, 64)) == {"x1"}
    for name in [name for name in sys.modules if name.startswith("their_studies")]:
        monkeypatch.delitem(sys.modules, name)
