"""docs/schema.md names every field of every file and of every --json output, and none that there is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest

from hopscope.cli import main
from hopscope.runs.run import SHIPPED
from tests.small_runs import trained

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"
RESULTS = Path(__file__).parents[2] / "results"

SMALL = "--hops 1 --chains 2 --layers 1 --d-model 8 --batch 4 --val-size 4"
SEARCH = "--discovery 8 --selection 8 --report 8"
#: Every --json output that takes seconds at most, by the heading under which the page describes it.
COMMANDS = {
    "list": "list",
    "sample": "sample retrieval",
    "train": f"train retrieval {SMALL} --steps 2 --out run",
    "train --dry-run": f"train retrieval {SMALL} --steps 2 --out other --dry-run",
    "show": "show run",
    "draw": "draw run",
    "runs": "runs run",
    "verify": "verify run",
    "circuit": f"circuit demo {SEARCH} --out found",
    "circuit --dry-run": "circuit demo --dry-run",
    "emerge": "emerge demo --n 8 --path L3H0_query->value[2] --out emerged",
    "build": "build 1 --out built",
    "depth": "depth 2",
    "ask": "ask equations",
    "ask --export": "ask equations --export asked",
    "evaluate": "evaluate --model known:oracle --count 3 --layout code --out evaluated",
    "reproduce": "reproduce fig2 --scale quick",
    "reproduce --dry-run": "reproduce curriculum --dry-run",
    "reproduce --list": "reproduce --list",
    "report": f"report --results {RESULTS}",
    "doctor": "doctor",
}
FILES = {
    "config.json": "run/config.json",
    "sessions.jsonl": "run/sessions.jsonl",
    "metrics.jsonl": "run/metrics.jsonl",
    "report.json": "run/report.json",
    "manifest.json": "run/manifest.json",
    "truth.json": "built/truth.json",
    "circuit.json": "found/circuit.json",
    "hypotheses.jsonl": "found/hypotheses.jsonl",
    "emergence.json": "emerged/emergence.json",
    "records.jsonl": "evaluated/records.jsonl",
    "table.csv of an evaluation": "evaluated/table.csv",
    "claims.json": "runs/quick-results/fig2/claims.json",
}
#: Objects whose names are data: hops, settings, losses, files and so on. Their values are described once, as `NAME`.
NAMED = re.compile(
    r"(^|\.)(hop_losses|files|settings|task|model|training|origin|environment|loss|loss\[\]|interval|accuracy"
    r"|accuracy_interval|seconds|labels|identity|registers|scores|protocol|request|layout|backend|said|circuits|held|hops"
    r"|order|first_order|hop_effects|measures)$"
)
#: Objects that stand in many places, described once under these headings.
SHARED = {
    "path": {"layer", "head", "query", "key", "chain"},
    "onset": {"status", "step", "low", "high", "after", "by", "falls"},
}


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Names of all fields within a value, such as `paths[].layer`."""
    if isinstance(value, list):
        for part in value:
            yield from fields(part, f"{path}[]")
    elif isinstance(value, dict) and {*value} not in SHARED.values():
        for name, part in value.items():
            named = NAMED.search(path)
            below = f"{path}.{'NAME' if named else name}".lstrip(".")
            yield below
            if not named:
                yield from fields(part, below)


def read(path: Path) -> Any:
    if path.suffix == ".csv":
        return dict.fromkeys(pandas.read_csv(path).columns)
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> dict[str, Any]:
    """What every command prints, and what the files hold that they wrote."""
    import contextlib
    import io
    import os

    folder, before = tmp_path_factory.mktemp("outputs"), Path.cwd()
    os.chdir(folder)
    found = {}
    try:
        for name, line in COMMANDS.items():
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
                code = main([*(word.replace("_query", " query") for word in line.split()), "--json"])
            assert code == 0, (name, err.getvalue())
            found[name] = json.loads(out.getvalue())
        found |= {name: read(folder / path) for name, path in FILES.items()}
    finally:
        os.chdir(before)
    return found


def described() -> dict[str, set[str]]:
    """The fields of each heading of the page."""
    found: dict[str, set[str]] = {}
    for part in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        same = re.search(r"^As `(.+?)`", text, re.MULTILINE)  # `runs`: a heading above
        rows = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
        found[title.strip().strip("`")] = ({*found[same[1]]} if same else set()) | {*rows}
    return found


@pytest.mark.parametrize("name", [*COMMANDS, *FILES])
def test_the_page_has_every_field_and_none_that_there_is_not(outputs, name):
    there, told = {*fields(outputs[name])}, described()[name]
    optional = {field for field in told if field.endswith("?")}
    assert there - {field.rstrip("?") for field in told} == set(), "not on the page"
    assert told - optional - there == set(), "only on the page"


@pytest.mark.parametrize("name", SHARED)
def test_what_stands_in_many_places_is_described_once(name):
    assert described()[name] == SHARED[name]


def test_no_text_in_an_output_is_json_itself(outputs):
    def texts(value):
        if isinstance(value, str):
            yield value
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from texts(part)

    for name in COMMANDS:
        for text in texts(outputs[name]):
            assert not re.match(r"\s*[\[{].*[\]}]\s*$", text, re.DOTALL), (name, text[:200])


def test_the_shipped_demo_is_as_described():
    for name in ("config.json", "report.json", "metrics.jsonl", "sessions.jsonl"):
        there = {*fields(read(SHIPPED / name))}
        assert there <= {field.rstrip("?") for field in described()[name]}


def test_small_runs_are_too(tmp_path):
    run = trained(tmp_path / "run", measures="attention_on_path", stop_accuracy=1.0)
    assert {*fields(read(run.path / "metrics.jsonl"))} <= {f.rstrip("?") for f in described()["metrics.jsonl"]}
