"""What the command line loads before it answers: nothing of the variants that it only lists, and no PyTorch."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.core import catalogue

ROOT = Path(__file__).parents[2]
#: Commands that draw, train and measure nothing.
LIGHT = (["--help"], ["list"], ["list", "--json"], ["sample", "--help"], ["depth", "3"], ["lm", "ask", "equations"])
RUN = """
import sys, json
from hopscope.cli import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
#: Several command lines, one after the other, where there is no PyTorch; of each what it says.
WITHOUT_TORCH = """
import contextlib, io, json, sys
sys.modules["torch"] = None
from hopscope.cli import main
said = []
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        main(line)
    said.append([out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    """A program in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )


@functools.cache
def run(*arguments: str) -> subprocess.CompletedProcess:
    """The command line in a process of its own; the last line of stderr names the modules that it loaded."""
    return python(RUN, *arguments)


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_light_commands_load_no_pytorch(arguments):
    code, modules = json.loads(run(*arguments).stderr.splitlines()[-1])
    assert code == 0
    assert not {"torch", "pandas", "matplotlib"} & set(modules)


@pytest.mark.parametrize("arguments", [["--help"], ["list"]], ids=" ".join)
def test_listing_imports_no_variant(arguments):
    """Of the commands only the one that runs."""
    _, modules = json.loads(run(*arguments).stderr.splitlines()[-1])
    assert {m for m in modules if m.startswith("hopscope.cli.commands.")} <= {"hopscope.cli.commands.list"}
    for folder in ("tasks", "measures", "experiments", "formulations", "curricula", "models.attention"):
        assert not [m for m in modules if m.startswith(f"hopscope.{folder}.")]


@pytest.mark.parametrize("arguments", [["--help"], ["list"]], ids=" ".join)
def test_listing_loads_few_modules(arguments):
    """What loading costs, counted: 280 modules take .3 s of the processor; seconds depend on who else is at work."""
    _, modules = json.loads(run(*arguments).stderr.splitlines()[-1])
    assert len(modules) < 350


def test_help_names_every_command_with_what_it_does():
    out = run("--help").stdout
    for name in catalogue.names("cli.commands"):
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {name} ")]
        assert len(line.split()) > 3


@pytest.mark.parametrize("folder", ["tasks", "measures", "experiments", "formulations", "curricula"])
def test_the_summary_is_the_first_line_of_the_module(folder):
    for name in catalogue.names(folder):
        assert catalogue.summary(folder, name) == catalogue.module(folder, name).__doc__.strip().split("\n")[0]


def test_without_pytorch_sample_describes_every_task():
    """With the example of the description, where it has one; what must be drawn is refused."""
    names = catalogue.names("tasks")
    lines = [*(["sample", name] for name in names), ["sample", "retrieval", "--hops", "3"]]
    *described, (shown, refused) = json.loads(python(WITHOUT_TORCH, json.dumps(lines)).stdout)
    said = {name: out for name, (out, _) in zip(names, described, strict=True)}
    where = "To draw instances, run pip install torch --index-url https://download.pytorch.org/whl/cpu\n"
    assert [name for name, out in said.items() if len(out.splitlines()) <= 4 or "`" * 3 in out] == []
    assert [name for name, out in said.items() if not out.endswith(where)] == []
    assert "\na1 a2  b1 b2     b0 b1  a0 a1     a0  b0     a1 a2,  b1 b2\n" in said["retrieval"]
    assert shown == "" and "drawn by PyTorch, which is not installed; run pip" in refused


def test_one_walk_through_a_folder_finds_all_its_variants(monkeypatch):
    """Listing n variants must not walk n times."""
    monkeypatch.setattr(catalogue, "_HOME_OF", {})
    walks = []
    walked = catalogue.homes
    monkeypatch.setattr(catalogue, "homes", lambda folder: (walks.append(folder), walked(folder))[1])
    for name in catalogue.names("tasks"):
        assert catalogue.summary("tasks", name)
    assert walks == ["tasks", "tasks"]  # for the names, and for the first of them
