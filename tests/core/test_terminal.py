"""What is told while something takes long: within two seconds, without a word too many."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import pytest
from rich.table import Table

from hopscope.cli import main
from hopscope.core import catalogue, terminal
from hopscope.core.terminal import QUIET, Narrator
from hopscope.core.wording import count, duration, shape


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


def until(said, seconds: float = 60.0) -> None:
    """Wait for what another thread says: how soon it gets to it is the machine's affair."""
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end, "it was never said"
        time.sleep(0.01)


def test_two_seconds_are_the_most():
    assert QUIET < 2


@pytest.mark.parametrize("live", [True, False])
def test_what_takes_long_is_said_again_and_what_does_not_is_not(live, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Screen() if live else io.StringIO())
    monkeypatch.setenv(terminal.PROGRESS, "1")
    with Narrator("loading", quiet=0.05) as watch:
        until(lambda: "loading" in screen.getvalue()) if live else time.sleep(0.3)
        before = screen.getvalue()
        watch("drawing")
        until(lambda: screen.getvalue()[len(before) :].count("drawing \u2026") >= 3)
    assert ("loading" in before) is live  # in a log only what was announced
    said = screen.getvalue()[len(before) :]
    assert said.count("drawing \u2026") >= 3 and said.count("\n") == (0 if live else said.count("drawing"))
    assert said.endswith("\r\x1b[K") is live


@pytest.mark.parametrize("live", [True, False])
def test_steps_that_follow_quickly_are_said_at_once_on_a_terminal_and_by_and_by_in_a_log(live, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Screen() if live else io.StringIO())
    monkeypatch.setenv(terminal.PROGRESS, "1")
    with Narrator("reading", quiet=0.2) as watch:
        for step in range(1000):
            watch.now_at(f"step {step}")
        assert ("step 500" in screen.getvalue()) is live
        until(lambda: "step 999" in screen.getvalue())
    said = screen.getvalue()
    assert live or said.count("\n") <= 4


def test_a_pipe_is_told_nothing_of_progress_unless_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    with Narrator("loading", quiet=0.01) as watch:
        watch("drawing")
        time.sleep(0.1)
    assert said.getvalue() == ""


def test_what_is_told_by_the_way_has_one_source():
    """Who would say how far it is says it with a Narrator, or with a bar for what is counted; nobody prints by hand."""
    commands = Path(terminal.__file__).parents[1] / "cli"
    by_hand = [p.name for p in commands.rglob("*.py") if re.search(r"isatty\(\)|\\x1b\[", p.read_text())]
    assert by_hand == []


def test_nobody_is_told_of_what_is_quick(monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    with Narrator("loading", quiet=5):
        pass
    assert screen.getvalue() == ""


def test_names_are_text(monkeypatch):
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    monkeypatch.setenv(terminal.PROGRESS, "1")
    with Narrator() as watch:
        watch("\x1b[31mred")
    assert said.getvalue() == "hopscope: \\x1b[31mred \u2026\n"


def test_a_command_that_loads_slowly_is_told_of(monkeypatch):
    found = catalogue.module("cli.commands", "list")

    def slowly(*_):
        until(lambda: "loading" in screen.getvalue())
        return found

    monkeypatch.setattr(sys, "stderr", screen := Screen())
    monkeypatch.setattr("hopscope.cli.catalogue.module", slowly)
    monkeypatch.setattr(Narrator.__init__, "__defaults__", ("", 0.05))
    assert main(["list", "--help"]) == 0
    assert "hopscope: loading \u2026" in screen.getvalue()


def test_every_stage_of_a_slow_command_is_announced(tmp_path, monkeypatch, capsys):
    """Drawing says what it draws, before it does; stages in between are bounded by the narrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hopscope.drawing.run_pictures.save", lambda figure, stem: [])
    assert main(["draw", "packaged", "--progress"]) == 0
    said = capsys.readouterr().err.splitlines()
    stages = ["loading the plotting library", "drawing the problem", "drawing its curves", "drawing attention"]
    assert [s for s in stages if f"hopscope: {s} \u2026" in said] == stages
    assert terminal.QUIET < 2


@pytest.mark.parametrize("name", ["x [bold]/[/x] run", "sweep[lr=0.1]", "[/red]x", ":smile:", "\x1b[31mred"])
def test_a_console_prints_strings_as_they_are(name, capsys):
    """Alone, and in a table's title, head and cells."""
    out = terminal.console(width=100)
    out.print(name)
    table = Table(name, title=name)
    table.add_row(name)
    out.print(table)
    said = capsys.readouterr().out
    assert said.count(terminal.visible(name)) == 4 and "\x1b" not in said


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0123, "0.012 s"),
        (41, "41 s"),
        (90, "90 s"),
        (300, "5 min"),
        (334, "5 min 34 s"),
        (1500, "25 min"),
        (4_799, "1 h 20 min"),
        (9_000, "2 h 30 min"),
        (36_000, "10 h"),
        (108_000, "1 day 6 h"),
        (172_800, "2 days"),
        (2_000_000, "23 days"),
        (float("inf"), "ever"),
    ],
)
def test_times_for_people(seconds, words):
    assert duration(seconds) == words


def test_numbers_and_shapes_for_people():
    assert count(1, "run") == "1 run" and count(0, "run") == "0 runs" and count(2000, "step") == "2,000 steps"
    assert count(1, "run is", "runs are") == "1 run is" and count(2, "run is", "runs are") == "2 runs are"
    assert shape((4, 64)) == "4 × 64" and shape(()) == "a single number"
