"""Wrong command lines, made from the commands' own options: each is one sentence, exit code 2, and nothing written."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from hopscope.cli import hopscope, main
from hopscope.core import catalogue

#: A command line of each command that would be right; where a command is left out, only its own words are tried.
RIGHT = {
    "train": "train retrieval --steps 1 --batch 2 --out out",
    "show": "show packaged",
    "draw": "draw packaged",
    "circuit": "circuit packaged",
    "emerge": "emerge packaged",
    "explore": "explore packaged --export page.html",
    "verify": "verify packaged",
    "sample": "sample retrieval",
    "depth": "depth 3",
    "build": "build 1 --out out",
    "ask": "ask equations",
    "evaluate": "evaluate --model known:oracle",
    "reproduce": "reproduce fig2 --scale quick",
    "sweep": "sweep curriculum --scale quick",
    "report": "report",
    "import": "import weights.safetensors --task retrieval",
    "new": "new task nosuchtask",
    "heads": "heads --model known:oracle",
    "demo": "demo",
    "list": "list",
}
#: What can be written and understood, and still not be trained.
UNTRAINABLE = (
    ["--frozen=*"],
    ["--frozen=nosuch"],
    ["--frozen=W_E@5-9"],
    ["--clip=0"],
    ["--clamp=L0H0 value[1]->key[1] ideal@99999"],
    ["--d-model=65536", "--layers=64"],
    ["--batch=100000000"],
    ["--val-size=1000000000"],
    ["--examples=100000000000"],
    ["--threads=20000"],
    ["--device=tpu"],
)


#: What was once answered by a traceback, in silence, or too late.
FOUND = (
    ["import"],
    ["import", "/dev/zero", "--task", "retrieval"],
    ["import", "/dev/stdin", "--task", "retrieval"],
    ["report", "--results", "."],
    ["sweep", "curriculum", "--scale", "quick", "--device", "tpu"],
    ["heads", "--threads", "0"],
    ["heads", "--out", "/dev/null"],
    ["draw", "packaged", "--out", "/dev/null"],
    ["draw", "packaged", "--out", "/proc/x"],
    ["evaluate", "--model", "known:oracle", "--dtype", "float8"],
    *([*words, "x" * 300] for words in (["show"], ["verify"], ["runs"], ["circuit"], ["emerge"], ["draw"], ["board"])),
    *([*words, "x" * 300] for words in (["report", "--results"], ["explore", "packaged", "--export"], ["new", "task"])),
    ["train", "retrieval", "--steps", "1", "--out", "x" * 300],
    ["draw", "packaged", "--out", "x" * 300],
    ["depth", "2", "--draw", "x" * 300],
    ["evaluate", "--model", "x" * 300],
)


#: Those about language models by their old names, which take the same.
NAMES = sorted({*catalogue.names("cli.commands"), *catalogue.names("cli.lm")} - {"lm"})


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command, and the variant of those that have some, that its right line names."""
    context = click.Context(hopscope)
    for name in NAMES:
        command = hopscope.get_command(context, name)
        words = RIGHT.get(name, name).split()
        if isinstance(command, click.Group) and len(words) > 1 and words[1] in command.list_commands(context):
            command = command.get_command(click.Context(command), words[1])
        yield name, command


def wrong_values(option: click.Parameter) -> Iterator[str]:
    """Values that no option of this type takes."""
    kind = option.type
    if isinstance(kind, click.Choice):
        yield from ("nosuch", "", "\x1b[0m")
    elif isinstance(kind, click.IntRange | click.FloatRange):
        yield from ("x", "", "nan" if isinstance(kind, click.IntRange) else "x1")
        if kind.min is not None:
            yield str(kind.min - 1)
        if kind.max is not None:
            yield str(kind.max + 1)
    elif kind in (click.INT, click.FLOAT):
        yield from ("x", "", "1,5", "0x")
    elif kind is click.BOOL:
        yield from ()
    elif option.name in ("order", "curriculum", "attention", "positions", "optimizer", "init", "measures", "frozen"):
        yield from ("nosuch", "nosuch(a=1)", "(", "\x1b[31m", "softmax(", "a,b,,")


def lines() -> list[list[str]]:
    """Command lines that are wrong in one way."""
    found = [["nosuch"], ["--nosuch"], ["--with", "nosuch", "list"], ["\x1b[31m"], ["train", "nosuch"]]
    found += [["new", "nosuch", "x"], *([*RIGHT["train"].split(), *words] for words in UNTRAINABLE), *map(list, FOUND)]
    for name, command in commands():
        right = RIGHT.get(name, name).split()
        if name not in ("verify", "evaluate"):  # which take any number of folders, or models
            found += [[*right, "--nosuch"], [*right, "--nosuch=1"], [*right, "a", "b", "c", "d", "e"]]
        for option in command.params:
            if not isinstance(option, click.Option):
                continue
            flag = max(option.opts, key=len)
            if not option.is_flag:
                found.append([*right, flag])
            found += [[*right, f"{flag}={value}"] for value in wrong_values(option)]
            if isinstance(option.type, click.Path) and option.type.exists:
                found.append([*right, f"{flag}=/nosuch/file"])
    return found


ALL = lines()
SOME = sorted({*random.Random(0).sample(range(len(ALL)), 150), *range(6, 6 + len(UNTRAINABLE) + len(FOUND))})


def test_there_are_enough():
    assert len(ALL) >= 300


def in_need() -> list[str]:
    """Commands that cannot do without an argument: those with a required one, and those with a variant to name."""
    found = {name: hopscope.get_command(click.Context(hopscope), name) for name in NAMES}
    needs = lambda p: isinstance(p, click.Argument) and p.required  # noqa: E731
    return [name for name, c in found.items() if isinstance(c, click.Group) or any(map(needs, c.params))]


@pytest.mark.parametrize("name", in_need())
def test_without_its_argument_a_command_says_what_is_missing_and_where_help_is(name, capsys):
    assert main([name]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("hopscope: missing argument '") and said.err.endswith(
        f"; see 'hopscope {name} --help'\n"
    )


@pytest.mark.parametrize(
    ("name", "folders", "what"),
    [("train", ["tasks"], "TASK"), ("ask", ["formulations", "language.benchmarks"], "FORMULATION")],
)
def test_where_no_variant_is_named_all_are(name, folders, what, capsys):
    assert main([name]) == 2
    names = [one for folder in folders for one in catalogue.names(folder)]
    assert f"'{what}': choose one of {', '.join(names)}; see" in capsys.readouterr().err


def test_hopscope_alone_shows_its_commands(capsys):
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.err == "" and all(name in said.out for name in catalogue.names("cli.commands"))


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "index", [*SOME, *(pytest.param(i, marks=pytest.mark.slow) for i in range(len(ALL)) if i not in SOME)]
)
def test_a_wrong_line_is_one_sentence_and_writes_nothing(index, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = ALL[index]
    code = main(line)
    said = capsys.readouterr()
    assert code == 2, (line, said)
    assert not tree(tmp_path), line
    assert "Traceback" not in said.err and said.err.count("\n") == 1 and said.err.startswith("hopscope: "), (
        line,
        said.err,
    )
    assert "\x1b" not in said.err and len(said.err) < 1_500, line


@pytest.mark.parametrize("index", SOME[:: len(SOME) // 2][:2])
def test_as_processes_too(index, tmp_path):
    """What is wrong with a line is told above; here that a process, too, ends so."""
    root = Path(__file__).parents[2]
    line = ALL[index]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from hopscope.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *line], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, (line, done.stderr)
    assert not tree(tmp_path)
