"""What the page says is run: the command trains the page's main variant, and the code asks it as the page does."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from hopscope.cli import main
from hopscope.training.loop import train
from hopscope_studies.more_hops.experiments.more_hops import VARIANTS, config

STUDY = Path(__file__).parents[1]
PAGES = (STUDY / "README.md", STUDY.parents[1] / "docs" / "models.md")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


def test_the_first_command_trains_the_looped_variant(capsys):
    command = blocks(PAGES[0], "bash")[0].replace("\\\n", " ").splitlines()[0]
    assert main([*shlex.split(command)[1:], "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["run"], found["identity"]) == ("runs/looped", config(VARIANTS["looped"], 0, "cpu").identity)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_asks_each_number_of_hops_after_one_loop_more(page, tmp_path, monkeypatch, capsys):
    [code] = [block for block in blocks(page, "python") if "further" in block]
    train(config(VARIANTS["looped"], 0, "quick"), tmp_path / "runs" / "looped", threads=1)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page.name, "exec"), {})
    rows = [eval(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["hops"], row["loops"]) for row in rows] == [(hops, hops + 1) for hops in range(1, 7)]
    assert all(0 <= row["low"] <= row["accuracy"] <= row["high"] <= 1 for row in rows)
