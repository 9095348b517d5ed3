"""What the README and the tutorial say is run: their Python blocks, their commands, their table of claims."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from hopscope.cli import main
from hopscope.core import catalogue
from tests.pictures import drawn_once  # noqa: F401

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/tutorial.md", "docs/the-problem.md")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.S)


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """A folder with a run called demo, of the demo's shape, trained for a moment."""
    monkeypatch.chdir(tmp_path)
    small = [
        "--preset",
        "demo",
        "--steps",
        "2",
        "--decay-steps",
        "1",
        "--batch",
        "4",
        "--d-model",
        "16",
        "--val-size",
        "8",
    ]
    assert main(["train", "retrieval", *small, "--dtype", "float32", "--out", "demo"]) == 0
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page, demo, capsys):
    source = "\n".join(blocks(page, "python"))
    assert source
    exec(compile(source, page, "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES[:2])
def test_commands_are_commands(page, demo, capsys):
    """Quick ones are run; of the others, every word must be one that the command knows."""
    for line in filter(None, "\n".join(blocks(page, "bash")).splitlines()):
        name, *arguments = shlex.split(line, comments=True)
        if name != "hopscope":
            assert name in ("make", "pip")
            continue
        # the fixture has few checkpoints, and a language model takes minutes
        slow = arguments[0] in ("demo", "emerge", "explore") or {"cpu", "plays"} & {*arguments}
        assert arguments[0] in catalogue.names("cli.commands")
        assert main([*arguments, "--help"] if slow else arguments) == 0, line
    capsys.readouterr()


def test_make_targets_exist():
    text = "\n".join(block for page in ("README.md", "CONTRIBUTING.md") for block in blocks(page, "bash"))
    named = re.findall(r"^make (\w+)", text, re.M)
    assert len(named) >= 6
    makefile = (ROOT / "Makefile").read_text()
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_the_readme_is_read_in_five_minutes():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120 and len(text.split()) <= 1500


def test_the_tree_lists_what_there_is():
    tree = next(block for block in blocks("CONTRIBUTING.md", "text") if "hopscope/" in block)
    for name in re.findall(r"^  (\w+(?:\.py|/))", tree, re.M):
        assert (ROOT / "hopscope" / name).exists(), name
    for name in re.findall(r"^(\w[\w/]*/) ", tree, re.M):
        assert (ROOT / name).is_dir(), name


@pytest.mark.parametrize(("page", "option"), [("README.md", "studies"), ("hopscope_studies/README.md", "all-studies")])
def test_the_studies_are_those_of_results(page, option, capsys):
    text = (ROOT / page).read_text()
    shown = text.split(f"<!-- hopscope report --{option} -->")[1].split("<!-- end of studies -->")[0].strip()
    assert main(["report", f"--{option}", "--results", str(ROOT / "hopscope_studies")]) == 0
    found = capsys.readouterr().out.strip()
    assert shown == found, "run python docs/make_study_tables.py"


def test_the_page_of_undecided_claims_is_true(capsys):
    """Five of ten verdicts of `fig2` are undecided, and the commands for larger models say the cost that it names."""
    page, results = (
        "hopscope_studies/stacked_heads/README.md",
        "hopscope_studies/stacked_heads/results/fig2/claims.json",
    )
    text = (ROOT / page).read_text()
    said = text[text.index("## Large language models: undecided") :]
    verdicts = [claim["verdict"] for claim in json.loads((ROOT / results).read_text())]
    table = said[: said.index("\n\n**If you")]
    assert len(verdicts) == 10 and verdicts.count("undecided") == 5 and "Five of these ten" in table
    rows = re.findall(r"\| (undecided|holds|fails) \| (undecided|holds|fails) \|", table)
    assert sorted(word for row in rows for word in row) == sorted(verdicts)
    commands = re.search(r"```bash\n(.*?)```", said, re.S)[1].replace("\\\n", " ").splitlines()
    assert len(commands) == 2
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0
        requests, cost = re.search(
            r"in all at most ([\d,]+) requests.*, ([\d.]+) to pay", capsys.readouterr().out
        ).groups()
        assert f"{requests} requests, {cost} to pay" in said
