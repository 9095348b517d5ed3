"""The run that comes with the package, and what is found out about it, beside a folder `demo` and in every order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from hopscope import load
from hopscope.circuits.discovery import Discovery, discover
from hopscope.cli import main
from hopscope.configuration.presets import RECIPES
from hopscope.runs.integrity import check
from hopscope.runs.run import SHIPPED, Run
from tests.pictures import drawn_once  # noqa: F401

PATH = "L0H0 value[1]->key[1]"
COMMANDS = {
    "show": ["show", "packaged"],
    "draw": ["draw", "packaged"],
    "circuit": ["circuit", "packaged"],
    "emerge": ["emerge", "packaged", "--path", PATH, "--n", "8"],
    "demo": ["demo", "--threads", "1"],
}


@pytest.fixture(scope="module")
def circuit():
    """A circuit of the shipped demo, found once, and by few sequences."""
    return discover(
        load(SHIPPED).model, load(SHIPPED).task, Discovery(discovery=8, selection=8, report=16, alternatives=1)
    )


@pytest.fixture
def quick(monkeypatch, circuit, tmp_path):
    """The commands with a search and pictures that take no time, and a demo of three steps."""
    tiny = RECIPES["demo"]._replace(model={"n_layers": 1, "n_heads": 1, "d_model": 16})
    training = {"steps": 3, "batch": 4, "val_size": 8, "log_every": 1, "checkpoints": "1", "dtype": "float32"}
    monkeypatch.setenv("HOPSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(RECIPES, "demo", tiny._replace(training=training))
    monkeypatch.setattr("hopscope.drawing.circuit_report.discover", lambda *_, **__: circuit)
    monkeypatch.setattr("hopscope.drawing.circuit_report.draw", lambda *_, **__: [])
    monkeypatch.setattr("hopscope.drawing.run_pictures.pictures", lambda *_: [("problem", "a problem", Figure())])


@pytest.fixture
def after(quick, tmp_path, monkeypatch, capsys):
    """The empty folder in which commands then run; which are said to have run there before."""

    def run(*names: str) -> Path:
        folder = tmp_path / "empty"
        folder.mkdir()
        monkeypatch.chdir(folder)
        codes = [main(COMMANDS[name]) for name in names]
        said = capsys.readouterr()
        assert codes == [0] * len(names), (names, said.err)
        return folder

    return run


@pytest.mark.parametrize("order", [list(COMMANDS), list(COMMANDS)[::-1]], ids=["forwards", "backwards"])
def test_commands_about_the_demo_come_in_any_order(after, order):
    """Whatever ran before, each does its work, and `packaged` is the same run after `demo` has trained another."""
    folder = after()
    for number, name in enumerate(order):
        assert main(COMMANDS[name]) == 0, order[: number + 1]
        made = {path.name for path in folder.iterdir()}
        assert ("demo" in made) == ("demo" in order[: number + 1])
        assert made <= {"demo", "packaged-pictures", "packaged-circuit", "packaged-emergence"}
        assert load("packaged").path == SHIPPED
        if "demo" in made:
            run = load("demo")
            assert run.path.name == "demo" and run.done and run.config.model.n_layers == 1
            assert check(run.path).state == "whole"


def test_no_folder_takes_the_name_of_the_packaged_run(after, capsys):
    """Not one that lies there already, and none that a training would make."""
    folder = after("demo")
    shutil.copytree(folder / "demo", folder / "packaged")
    assert load("packaged").path == load(Path("packaged")).path == SHIPPED
    assert load(folder / "packaged").path == folder / "packaged"
    shutil.rmtree(folder / "packaged")
    assert main(["demo", "--out", "packaged"]) == 2
    assert "is the name of the run that comes with the package; choose another folder" in capsys.readouterr().err
    assert not (folder / "packaged").exists()


def test_a_folder_that_is_no_run_says_which_runs_there_are(after, capsys):
    after("demo")
    assert main(["show", "demmo"]) == 2
    assert "did you mean 'demo'?" in capsys.readouterr().err
    assert main(["show", "somewhere"]) == 2
    assert "look at 'packaged', the run that comes with hopscope" in capsys.readouterr().err


def test_what_an_earlier_version_drew_of_the_demo_is_in_nobodys_way(after):
    """It made the folder demo/pictures, and from then on no demo could be trained."""
    folder = after()
    (folder / "demo" / "pictures").mkdir(parents=True)
    (folder / "demo" / "pictures" / "problem.svg").write_text("<svg/>")
    assert main(COMMANDS["demo"]) == 0 and main(["draw", "demo"]) == 0
    assert Run("demo").done and (folder / "demo" / "pictures" / "problem.png").exists()


def test_a_folder_of_something_else_is_still_refused(after, capsys):
    folder = after()
    (folder / "demo").mkdir()
    (folder / "demo" / "thesis.tex").write_text("")
    assert main(COMMANDS["demo"]) == 2
    assert "holds files but no run" in capsys.readouterr().err


def test_the_package_is_never_written_to(after):
    before = {path: path.stat().st_mtime_ns for path in SHIPPED.rglob("*")}
    after("show", "draw", "circuit", "emerge")
    assert {path: path.stat().st_mtime_ns for path in SHIPPED.rglob("*")} == before


def test_the_demo_that_is_shipped_is_whole(tmp_path, capsys):
    assert check(SHIPPED).state == "whole" and not check(SHIPPED).unverified
    assert main(["verify", "packaged"]) == 0
    shutil.copytree(SHIPPED, tmp_path / "copy")
    path = tmp_path / "copy" / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b"0.9", b"0.8", 1))
    assert main(["verify", str(tmp_path / "copy")]) == 2
    assert f"{path} is altered" in capsys.readouterr().out
