"""`hopscope new` outside a checkout, and names that it refuses; tests/test_additions.py holds what it writes."""

from __future__ import annotations

import pytest

from hopscope.cli import main
from hopscope.cli.commands.new import class_name
from hopscope.core import catalogue, outside


@pytest.fixture
def new(tmp_path, capsys):
    """`hopscope new` in a folder of one's own; the exit code, stdout and stderr."""
    (tmp_path / "lab").mkdir()

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--with", str(tmp_path / "lab"), "new", *arguments])
        return code, *capsys.readouterr()

    return run


def test_in_a_folder_of_ones_own_it_writes_there(new, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, _ = new("task", "look_up")
    assert code == 0 and out.startswith("lab/tasks/look_up.py is written")
    assert f"HOPSCOPE_PATH={tmp_path / 'lab'} pytest tests/contracts -k look_up" in out
    assert "hopscope --with lab sample look_up" in out
    assert main(["--with", "lab", "sample", "look_up"]) == 0
    assert [path.name for path in (tmp_path / "lab").rglob("*.*") if path.suffix != ".pyc"] == ["look_up.py"]


def test_a_study_is_reproduced_from_there(new, tmp_path, capsys):
    assert new("study", "tiny")[0] == 0
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    assert main(["--with", str(tmp_path / "lab"), "reproduce", "tiny", "--scale", "quick", *where]) == 0
    assert (tmp_path / "results" / "tiny" / "claims.json").is_file()


@pytest.mark.parametrize(
    ("kind", "name", "complaint"),
    [
        ("task", "Look-Up", "small letters, digits and underscores"),
        ("task", "9lives", "begin with a letter"),
        ("task", "../task", "small letters"),
        ("task", "import", "no keyword of Python"),
        ("task", "none", "no keyword of Python"),
        ("task", "a" * 33, "at most 32"),
        ("task", "base_task", "begin with base"),
        ("task", "retrieval", f"already, in {catalogue.LIBRARY.path / 'tasks' / 'retrieval.py'}; choose another"),
        ("task", "trigger_bigrams", "hopscope_studies/birth/tasks/trigger_bigrams.py; choose another"),
        ("study", "birth", f"a study 'birth' already, in {catalogue.ours()[0].path / 'birth'}"),
        ("study", "fig4", "hopscope_studies/stacked_heads/experiments/fig4.py; choose another"),
        ("task", "problem", "Problem means something else in the skeleton"),
        ("measure", "roles", "roles means something else"),
        ("attention", "attention", "Attention means something else"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_one_sentence(new, tmp_path, kind, name, complaint):
    code, out, err = new(kind, name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert complaint in err
    assert not list((tmp_path / "lab").iterdir())


@pytest.mark.parametrize("kind", ["task", "study"])
def test_nothing_is_overwritten(new, tmp_path, kind):
    assert new(kind, "mine")[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "lab").rglob("*.*") if path.suffix != ".pyc"}
    code, _, err = new(kind, "mine")
    assert code == 2 and "already" in err and str(tmp_path / "lab") in err
    assert {path: path.read_bytes() for path in (tmp_path / "lab").rglob("*.*") if path.suffix != ".pyc"} == before


def test_a_study_that_cannot_be_written_leaves_nothing(new, tmp_path, monkeypatch):
    from hopscope.cli.commands import new as module

    calls = iter(range(10))

    def full(path, data):
        if next(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_file", full)
    code, _, err = new("study", "mine")
    assert code == 1 and "free some space" in err
    assert not list((tmp_path / "lab" / "studies").iterdir())


def test_installed_and_without_a_folder_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    from hopscope.cli.commands import new as module

    monkeypatch.setattr(module, "CONTRACTS", tmp_path / "none")
    assert main(["new", "task", "mine"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "hopscope --with DIR new KIND NAME, or HOPSCOPE_PATH=DIR" in err


def test_a_class_is_named_like_its_file():
    assert class_name("two_step") == "TwoStep" and class_name("look") == "Look"
    assert outside.folders() == []
