"""Runs and results whose JSON a stranger wrote: any shape, value or bytes. A sentence or an answer, and no traceback.

Hypothesis changes one place of a file that is otherwise right, or replaces the file. No manifest vouches for the
folder, as in one that was finished before there were any: what reads it has to look for itself.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hopscope.cli import main
from hopscope.runs.run import SHIPPED

EXAMPLES = [3, pytest.param(150, marks=pytest.mark.slow)]
BUDGET = settings(
    max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

SMALL = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
#: What text is made of by default, said so that Hypothesis does not try UTF-8 on every character that there is.
ANY = st.characters(exclude_categories=["Cs"])
TEXT = st.text(ANY, max_size=8) | st.sampled_from(["\x1b[31m", "../..", "[/red]", "NaN", "cpu", "1", "x" * 300])
VALUES = st.recursive(
    SMALL | TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
RAW = st.sampled_from(
    [b"", b"\xff\xfe", b"{", b"[" * 100_000, b"9" * 5_000, b"NaN", b'{"a": 1e999}', b"\0" * 64, b'"' + b"\\u0000" * 9]
)


def places(value, path=()):
    """Every place within a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(min(3, len(value))):
            yield from places(value[key], (*path, key))


def changed(value, path, draw):
    """The value, with something else, or nothing, at a place."""
    if not path:
        return draw(VALUES)
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    if draw(st.booleans()) and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = draw(VALUES)
    return value


@st.composite
def hostile(draw, data: bytes):
    """A file like this one, but for one place; sometimes any bytes."""
    if draw(st.integers(0, 4)) == 0:
        return draw(RAW)
    try:
        value, lines = json.loads(data), None
    except ValueError:
        lines = data.splitlines()
        number = draw(st.integers(0, min(3, len(lines) - 1)))
        value = json.loads(lines[number])
    text = json.dumps(changed(value, draw(st.sampled_from(list(places(value)))), draw)).encode()
    return text if lines is None else b"\n".join([*lines[:number], text, *lines[number + 1 :], b""])


def answer(*line: str) -> tuple[int, str]:
    """A command's exit code, and what it said on stderr."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        return main([str(word) for word in line]), err.getvalue()


def assert_told(line, code, said):
    assert code in (0, 2) and "Traceback" not in said, (line, said[-1500:])
    assert not {"\x1b", "\x07", "\u202e"} & {*said}, line


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished run for which nothing vouches, with a circuit."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    shutil.copytree(SHIPPED, folder)
    (folder / "manifest.json").unlink(missing_ok=True)
    few = ["--discovery", "8", "--selection", "8", "--report", "8", "--alternatives", "1"]
    assert answer("circuit", folder, *few)[0] == 0
    (folder / "manifest.json").unlink()
    return folder


READERS = {
    "config.json": (["show"], ["runs"], ["verify"]),
    "report.json": (["show"], ["runs", "--json"], ["verify"]),
    "metrics.jsonl": (["show"], ["runs"], ["verify"]),
    "sessions.jsonl": (["show"], ["verify"]),
    "circuit.json": (["verify"], ["report"]),
    "checkpoints/step_NEWEST/manifest.json": (["show"], ["verify"]),
    "manifest.json": (["show"], ["verify"]),
}


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("name", READERS)
def test_a_runs_json_is_read_or_refused_in_a_sentence(run, name, examples, tmp_path_factory):
    newest = max(path.name for path in (run / "checkpoints").iterdir())
    file = run / name.replace("step_NEWEST", newest)
    before = file.read_bytes() if file.exists() else b'{"files": {"config.json": {"bytes": 1, "sha256": "a"}}}'
    there = file.exists()
    page = tmp_path_factory.mktemp("page") / "page.html"
    studies = Path(__file__).parents[2].glob("hopscope_studies/*/results/")
    results = min(studies, key=lambda folder: sum(path.stat().st_size for path in folder.glob("*/*.*")))  # the quickest

    @settings(BUDGET, max_examples=examples)
    @given(hostile(before))
    def fuzz(data):
        file.write_bytes(data)
        for reader in READERS[name]:
            line = [*reader, run]
            if reader == ["report"]:
                line = ["report", "--results", results, "--html", page, "--run", run]
            assert_told(line, *answer(*line))

    try:
        fuzz()
    finally:
        file.write_bytes(before)
        if not there:
            file.unlink()


CLAIM = {
    "id": "a",
    "section": "7.2",
    "sentence": "x",
    "scale": "cpu",
    "number": 0.5,
    "spread": [0.25, None],
    "n": 3,
    "seeds": [0],
    "threshold": "> 0",
    "verdict": "fails",
    "runs": ["r"],
    "version": "v1",
}


@BUDGET
@given(hostile(json.dumps([CLAIM, CLAIM]).encode()))
def test_claims_are_read_or_refused_in_a_sentence(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("claims")
    (folder / "results" / "curriculum").mkdir(parents=True)
    (folder / "results" / "curriculum" / "claims.json").write_bytes(data)
    for line in (
        ["report", "--results", folder / "results"],
        ["report", "--results", folder / "results", "--json"],
        ["report", "--results", folder / "results", "--markdown"],
        ["report", "--results", folder / "results", "--html", folder / "page.html"],
        ["verify", folder / "results"],
    ):
        assert_told(line, *answer(*line))
