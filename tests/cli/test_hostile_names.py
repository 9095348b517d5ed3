"""Names that a stranger chose are text: no markup, no orders to the terminal, and never a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from rich.console import Console

from hopscope import load
from hopscope.cli import main
from hopscope.core import terminal
from hopscope.runs.run import SHIPPED
from hopscope.training.progress import ProgressBar
from tests.small_runs import config

NAMES = ["x [bold]/[/x] run", "sweep[lr=0.1]", "[/red]x", "\x1b[31mred", "bell\x07", ":smile:", "\u202egpj.exe"]
COMMANDS = {
    "show": lambda run: ["show", run],
    "verify": lambda run: ["verify", run],
    "emerge": lambda run: ["emerge", run, "--path", "L0H0 value[1]->key[1]", "--n", "4"],
    "missing": lambda run: ["show", run + "-not-there"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_runs_name_is_printed_as_it_is(name, command, tmp_path, monkeypatch, capsys):
    folder = tmp_path / name.replace("/", "\u2215")
    shutil.copytree(SHIPPED, folder)
    monkeypatch.chdir(tmp_path)
    assert main(COMMANDS[command](folder.name)) in (0, 2)
    said = capsys.readouterr()
    both = said.out + said.err
    assert "Traceback" not in both and not {"\x1b", "\x07", "\u202e"} & {*both}
    seen = "".join(both.split())
    assert "".join(terminal.visible(folder.name).split()) in seen


def test_a_bars_label_and_losses_are_text_alone(capsys):
    """On a terminal, where rich would take them for markup."""
    for label in NAMES:
        err = terminal.console(stderr=True, width=200)
        err._force_terminal = True
        bar = ProgressBar(err, label=label)
        bar.begin(config(), 0)
        bar.logged({"step": 1, "hop_losses": {"[/x1]": 0.5, "[red]": 0.1}})
        bar.end()
        assert "[/x1] 0.500" in capsys.readouterr().err


def test_consoles_that_take_markup_are_made_in_one_place():
    """So that nobody forgets."""
    from pathlib import Path

    package = Path(terminal.__file__).parents[1]
    makers = [
        p
        for p in package.rglob("*.py")
        if "rich.console import Console\n" in p.read_text() and "Console(" in p.read_text()
    ]
    assert [p.name for p in makers] == ["terminal.py"]
    assert isinstance(terminal.console(), Console)


@pytest.mark.parametrize(
    "arguments", [["list"], ["sample", "retrieval"], ["show", "demo"], ["report", "--html", "page.html"]]
)
def test_where_the_terminal_knows_ascii_alone(arguments, tmp_path):
    """What it lacks is spelt out; the files are UTF-8 all the same."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    given = [*arguments, "--results", os.path.join(root, "results")] if arguments[0] == "report" else arguments
    plain = {
        "PYTHONIOENCODING": "ascii:strict",
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
        "PYTHONPATH": root,
    }
    done = subprocess.run(
        [sys.executable, "-m", "hopscope", *given], cwd=tmp_path, env=os.environ | plain, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    done.stdout.decode("ascii")
    if arguments[0] == "report":
        assert "\u2264" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_shipped_demo_is_as_before():
    assert load(SHIPPED).done
