"""Names that a stranger chose are text: no markup, no orders to the terminal, and never a traceback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from hopscope.cli import main
from hopscope.core import terminal
from hopscope.runs.run import SHIPPED
from hopscope.training.progress import ProgressBar
from tests.small_runs import config

NAMES = ["x [bold]/[/x] run", "sweep[lr=0.1]", "[/red]x", "\x1b[31mred", "bell\x07", ":smile:", "\u202egpj.exe"]
COMMANDS = {
    "show": lambda run: ["show", run],
    "verify": lambda run: ["verify", run],
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


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_tensors_name_is_printed_as_it_is(name, tmp_path, capsys):
    path = tmp_path / "weights.safetensors"
    safetensors.torch.save_file({name: torch.zeros(2)}, path)
    assert main(["import", str(path), "--task", "retrieval", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said and said.count("\n") == 1 and not {"\x1b", "\x07", "\u202e"} & {*said}
    assert terminal.visible(name) in said


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
    package = Path(terminal.__file__).parents[1]
    texts = {path.name: path.read_text() for path in package.rglob("*.py")}
    makers = [name for name, text in texts.items() if re.search(r"import Console\b", text) and "Console(" in text]
    assert makers == ["terminal.py"]


def test_where_the_terminal_knows_ascii_alone(tmp_path):
    """What it lacks is spelt out, command after command; the files are UTF-8 all the same."""
    root = Path(__file__).parents[2]
    lines = ["list", "sample retrieval", "show packaged", "report --html page.html --results"]
    lines[-1] += f" {root}/hopscope_studies/composition/results"  # with a sign that ASCII lacks
    code = "import sys\nfrom hopscope.cli import main\n"
    code += "sys.exit(next((line for line in sys.argv[1:] if main(line.split()) or sys.stdout.flush()), None))"
    plain = {"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    where = os.environ | plain | {"PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", code, *lines], cwd=tmp_path, env=where, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout.decode("ascii") for word in ("curricula", "retrieval", "steps", "page.html"))
    assert "\\u2264" in (tmp_path / "page.html").read_text(encoding="utf-8")  # in JSON
