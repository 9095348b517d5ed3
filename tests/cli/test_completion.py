"""What the shell completes: commands, tasks, formulations, experiments, options; without importing any of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from hopscope.cli import hopscope
from hopscope.core import catalogue

ROOT = Path(__file__).parents[2]


def completed(*words: str) -> set[str]:
    """What the shell would offer for the last word."""
    asked = ShellComplete(hopscope, {}, "hopscope", "_HOPSCOPE_COMPLETE")
    return {item.value for item in asked.get_completions(list(words[:-1]), words[-1])}


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (("",), "cli.commands"),
        (("train", ""), "tasks"),
        (("sample", ""), "tasks"),
        (("ask", ""), "formulations"),
        (("reproduce", ""), "experiments"),
        (("sweep", ""), "experiments"),
    ],
)
def test_every_name_is_offered(words, folder):
    assert {*catalogue.names(folder)} <= completed(*words)


def test_names_that_begin_like_the_word():
    assert completed("reproduce", "fig") == {name for name in catalogue.names("experiments") if name.startswith("fig")}
    assert completed("train", "retr") == {"retrieval"} and completed("circ") == {"circuit"}
    assert "--dry-run" in completed("reproduce", "--dry") and "--layers" in completed("train", "retrieval", "--lay")
    assert completed("reproduce", "nosuch") == set()


def test_a_shell_gets_them_and_pytorch_is_not_loaded():
    """As bash asks: by variables, from the command itself."""
    code = (
        "import sys\ntry:\n from hopscope.cli import main; main([])\n"
        "except SystemExit: pass\nprint('torch' in sys.modules, file=sys.stderr)"
    )
    asked = {"_HOPSCOPE_COMPLETE": "bash_complete", "COMP_WORDS": "hopscope tr", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | asked | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.split() == ["plain,train"] and done.stderr.strip() == "False", done


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell):
    source = click.shell_completion.get_completion_class(shell)(hopscope, {}, "hopscope", "_HOPSCOPE_COMPLETE")
    if shell != "bash":  # whose script asks the bash that is here for its version
        assert "_HOPSCOPE_COMPLETE" in source.source()
