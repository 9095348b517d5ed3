"""`hopscope runs` and `hopscope doctor`, and how commands are grouped and guessed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hopscope.cli import GROUPS, main
from hopscope.core import catalogue
from tests.brief_reports import brief_reports  # noqa: F401
from tests.small_runs import trained


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three small runs in a folder, of two seeds and two numbers of steps."""
    folder = tmp_path_factory.mktemp("made")
    for name, settings in {"a": {"seed": 0}, "b": {"seed": 1}, "c": {"seed": 1, "steps": 6}}.items():
        trained(folder / name, **settings)
    (folder / "notes").mkdir()
    return folder


@pytest.fixture
def runs(made, tmp_path, monkeypatch, capsys):
    """A copy of them, of which some may be deleted."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, tmp_path / "runs")
    capsys.readouterr()
    return tmp_path / "runs"


def listed(capsys, *options):
    assert main(["runs", *options, "--json"]) == 0
    return {entry["run"].rpartition("/")[2] for entry in json.loads(capsys.readouterr().out)}


def test_runs_are_listed_and_filtered(runs, capsys):
    assert listed(capsys) == {"a", "b", "c"} == listed(capsys, str(runs))
    assert listed(capsys, "--where", "seed=1") == {"b", "c"}
    assert listed(capsys, "--where", "seed=1", "--where", "steps=6") == {"c"} == listed(capsys, "runs/c")
    assert listed(capsys, "--where", "seed=7") == set()
    assert (
        main(["runs", "--where", "sed=1"]) == 2 and "has a setting sed; did you mean 'seed'?" in capsys.readouterr().err
    )
    assert main(["runs", "--where", "zzz=1"]) == 2 and "has a setting zzz; 'hopscope show" in capsys.readouterr().err
    assert main(["runs", "--where", "seed"]) == 2 and "such as seed=0" in capsys.readouterr().err
    assert main(["runs", "elsewhere"]) == 2 and "no folder elsewhere" in capsys.readouterr().err


def test_what_runs_differ_in_is_shown(runs, capsys):
    assert main(["runs", "--compare"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert {"seed", "steps"} <= {*head.split()} and "batch" not in head and len(rows) == 3


def test_only_what_is_listed_is_deleted_and_only_if_one_says_so(runs, capsys, monkeypatch):
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    assert main(["runs", "--where", "seed=1", "--delete"]) == 0
    capsys.readouterr()
    assert listed(capsys) == {"a", "b", "c"}
    assert main(["runs", "--where", "seed=1", "--delete", "--yes"]) == 0
    capsys.readouterr()
    assert listed(capsys) == {"a"} and (runs / "notes").is_dir()


def test_a_damaged_run_is_listed_as_one_and_can_be_deleted(runs, capsys):
    (runs / "a" / "metrics.jsonl").unlink()
    (runs / "b" / "config.json").write_text("{")
    assert main(["runs"]) == 0
    said = capsys.readouterr().out
    assert said.count("damaged: ") == 2 and "metrics.jsonl is missing" in said
    assert main(["runs", "--json"]) == 0
    found = {Path(entry["run"]).name: entry for entry in json.loads(capsys.readouterr().out)}
    assert "metrics.jsonl" in found["a"]["damaged"] and found["a"]["settings"]["seed"] == 0
    assert "config.json" in found["b"]["damaged"] and found["b"]["settings"] == {} and "damaged" not in found["c"]
    assert main(["runs", "--compare", "--where", "seed=0", "--delete", "--yes"]) == 0
    assert not (runs / "a").exists() and (runs / "b").exists()
    assert main(["runs", "runs/b", "--delete", "--yes"]) == 0 and not (runs / "b").exists()


def test_what_a_run_was_exported_to_is_no_run(runs, capsys):
    assert main(["export", "runs/a", "--to", "transformer-lens"]) == 0
    capsys.readouterr()
    assert listed(capsys, "runs/a") == {"a"}


def test_a_finished_run_with_a_damaged_checkpoint_is_not_called_finished(runs, capsys):
    [manifest] = sorted((runs / "a" / "checkpoints").glob("*/manifest.json"))[-1:]
    manifest.write_text("{}")
    recipe = "--steps 12 --batch 4 --val-size 4 --log-every 1 --checkpoints 4 --compile off --threads 1"
    shape = "--layers 1 --d-model 8 --mlp --positions input"
    line = f"train retrieval --hops 1 --chains 2 {shape} --seed 0 {recipe} --out runs/a"
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == "" and "manifest.json is altered" in said.err


def test_the_doctor_says_what_is_there_and_what_to_install(capsys, monkeypatch):
    assert main(["doctor", "--json"]) == 0
    found = {entry["what"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert found["PyTorch"]["there"] and found["memory"]["about"].endswith("GiB free")
    monkeypatch.setattr("hopscope.cli.commands.doctor.find_spec", lambda name: None)
    assert main(["doctor"]) == 2
    said = capsys.readouterr().out
    assert "download.pytorch.org/whl/cpu" in said and "hopscope[ray]" in said


def test_every_command_is_in_a_group_and_the_help_shows_all(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    grouped = [name for names in GROUPS.values() for name in names]
    assert len(grouped) == len({*grouped}) and {*catalogue.names("cli.commands")} <= {*grouped}
    for name in catalogue.names("cli.commands"):
        assert f"\n  {name} " in said


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("circu", "circuit"),
        ("train retreival", "retrieval"),
        ("ask equation", "equations"),
        ("show packaged --jsn", "--json"),
        ("reproduce curiculum", "curriculum"),
        ("sweep fig22", "fig2"),
        ("reproduce curriculum --scale quik", "quick"),
        ("train retrieval --preset thre_hops", "three_hops"),
        ("train retrieval --optimizer adam", "adamw"),
        ("train retrieval --measures hop_los", "hop_loss"),
        ("train retrieval --schedule cosin", "cosine"),
        ("evaluate --model known:oracle --protocol gredy_strict", "greedy_strict"),
        ("new taks x", "task"),
    ],
)
def test_what_was_meant_is_guessed(line, meant, capsys):
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert "did you mean" in said.lower() and meant in said and said.count("\n") == 1


WORDED = {
    "train retrieval --steps 10 --warmup 3000": "got a warmup of 3000;",
    "ask equations --count x": "'x' is not a valid integer;",
    "train retrieval --lr x": "'x' is not a number;",
    "doctor a b c": "got more than was expected: a b c;",
    "train retreival": "there is no task 'retreival' (did you mean 'retrieval'?)",
    "trian": "there is no command 'trian' (did you mean 'train'?)",
    "runs nosuch": "there is no folder nosuch: 'hopscope train' makes the folder runs",
    "train retrieval --set x": "no such option '--set' (did you mean one of: '--preset', '--seed', '--steps'?); see",
    "show packaged --jsn": "no such option '--jsn' (did you mean '--json'?); see 'hopscope show --help'",
}


@pytest.mark.parametrize("line", WORDED)
def test_words_are_plain(line, capsys):
    assert main(line.split()) == 2
    said = capsys.readouterr().err.rstrip("\n") + ";"
    assert WORDED[line].rstrip(";") in said and "None" not in said and "range" not in said and "(a b c)" not in said


def test_one_run_is_one_run(runs, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr("click.confirm", lambda words, **_: asked.append(words))
    assert main(["runs", "--where", "steps=6", "--delete"]) == 0
    assert main(["runs", "--where", "seed=1", "--delete"]) == 0
    assert asked == ["Delete 1 run?", "Delete 2 runs?"]
    capsys.readouterr()
    assert main(["verify", "runs/a"]) == 0
    assert capsys.readouterr().out.endswith("1 folder checked: no faults\n")
