"""The demo that comes with the package, and what is found out about it, in an empty folder: in every order."""

from __future__ import annotations

import shutil

import pytest
from matplotlib.figure import Figure

from hopscope import load
from hopscope.circuits.discovery import Discovery, discover
from hopscope.cli import main
from hopscope.configuration.presets import RECIPES
from hopscope.runs.integrity import check
from hopscope.runs.run import SHIPPED, Run

PATH = "L0H0 value[1]->key[1]"
COMMANDS = {
    "show": ["show", "demo"],
    "draw": ["draw", "demo"],
    "circuit": ["circuit", "demo"],
    "emerge": ["emerge", "demo", "--path", PATH, "--n", "8"],
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
    tiny = RECIPES["three_hops"]._replace(model={"n_layers": 1, "n_heads": 1, "d_model": 16})
    training = {"steps": 3, "batch": 4, "val_size": 8, "log_every": 1, "checkpoints": "1", "dtype": "float32"}
    monkeypatch.setenv("HOPSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(RECIPES, "three_hops", tiny._replace(training=training))
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
    """Whatever ran before, each does its work; nothing but `demo` makes a run of that name. Of two, either is first."""
    folder = after()
    for number, name in enumerate(order):
        assert main(COMMANDS[name]) == 0, order[: number + 1]
        made = {path.name for path in folder.iterdir()}
        assert ("demo" in made) == ("demo" in order[: number + 1])
        if "demo" in made:
            run = load("demo")
            assert run.path.name == "demo" and run.done and run.config.model.n_layers == 1
            assert check(run.path).state == "whole"
        else:
            assert made <= {"demo-pictures", "demo-circuit", "demo-emergence"}
            assert load("demo").path == SHIPPED


def test_what_an_earlier_version_drew_of_the_demo_is_in_nobodys_way(after, monkeypatch):
    """It made the folder demo/pictures, and from then on nothing named demo could be shown, or trained."""
    folder = after()
    (folder / "demo" / "pictures").mkdir(parents=True)
    (folder / "demo" / "pictures" / "problem.svg").write_text("<svg/>")
    for name in ("show", "draw", "circuit", "emerge", "demo", "show", "draw"):
        assert main(COMMANDS[name]) == 0, name
    assert Run("demo").done and (folder / "demo" / "pictures" / "problem.png").exists()


def test_a_folder_of_something_else_is_still_refused(after, capsys):
    folder = after()
    (folder / "demo").mkdir()
    (folder / "demo" / "thesis.tex").write_text("")
    assert main(COMMANDS["demo"]) == 2
    assert "holds files but no run" in capsys.readouterr().err
    assert main(COMMANDS["show"]) == 0  # the one of the package is meant


def test_the_package_is_never_written_to(after):
    before = {path: path.stat().st_mtime_ns for path in SHIPPED.rglob("*")}
    after("show", "draw", "circuit", "emerge")
    assert {path: path.stat().st_mtime_ns for path in SHIPPED.rglob("*")} == before


def test_the_demo_that_is_shipped_is_whole(tmp_path, capsys):
    assert check(SHIPPED).state == "whole" and not check(SHIPPED).unverified
    assert main(["verify", "demo"]) == 0
    shutil.copytree(SHIPPED, tmp_path / "copy")
    path = tmp_path / "copy" / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b"0.9", b"0.8", 1))
    assert main(["verify", str(tmp_path / "copy")]) == 2
    assert f"{path} is altered" in capsys.readouterr().out
