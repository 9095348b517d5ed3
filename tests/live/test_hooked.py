"""Circuits of HookedTransformers, and the notebook that trains one; in the environment of the peers (`make peers`)."""

from __future__ import annotations

import ast
import html
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "your_model.ipynb"
PATHS = {"relations": {"L0H0 each->−1", "L1H0 query->after-same-token"}}
NAMED = {"L0H0 answer->asked", "L1H0 query->answer"}

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def python():
    path = Path(os.environ.get("HOPSCOPE_PEERS_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
    if not path.exists():
        pytest.skip(f"there is no {path}; `make peers` builds the environment that TransformerLens lives in")
    return path


def run(python, *arguments, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([python, *arguments], env=environment, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


@pytest.fixture(scope="module")
def report(python):
    return run(python, ROOT / "tests" / "live" / "hooked.py")


@pytest.mark.parametrize(
    "case", ["relations", "roles", "own loss", "float64", "bfloat16", "watched", "grouped keys", "windows"]
)
def test_an_induction_circuit_written_by_hand_is_found(report, case):
    found = report[case]
    assert found["verdict"] == "circuit", found["reason"]
    assert set(found["paths"]) == PATHS.get(case, NAMED)
    assert found["svg"] and "attends to" in found["words"]
    assert found["losses"]["live"] < 0.01 < 1 < found["losses"]["null"]


@pytest.mark.parametrize("case", ["torn", "untrained"])
def test_what_has_not_solved_its_task_has_no_circuit(report, case):
    assert report[case]["verdict"] == "none" and "the model itself" in report[case]["reason"]


def test_hooks_modes_weights_and_chance_are_as_before(report):
    assert all(found["unchanged"] and found["training"] for found in report.values())
    assert {case: found["hooks"] for case, found in report.items() if found["hooks"]} == {"watched": 1}
    assert report["watched"]["seen"], "the owner's own hooks go on working"


def code() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def shown() -> str:
    """All that the notebook keeps of what its cells showed."""
    return "".join(part for cell in json.loads(NOTEBOOK.read_text())["cells"] for part in html_of(cell))


def html_of(cell: dict[str, Any]) -> list[str]:
    """The pages among a cell's outputs."""
    return [part for one in cell.get("outputs", []) for part in one.get("data", {}).get("text/html", [])]


def test_the_notebook_is_short():
    lines = [line for source in code() for line in source.splitlines() if line.strip()]
    assert len(lines) <= 40 and max(map(len, lines)) <= 120
    assert all(ast.parse(source) for source in code())


def test_every_cell_of_the_notebook_runs(python, tmp_path):
    check = (
        "import json; print(json.dumps({name: {'verdict': one.verdict, 'reason': one.reason, "
        "'html': one._repr_html_(), 'paths': [str(p.path) for p in one.circuit.paths]} "
        "for name, one in (('found', found), ('named', named))}))"
    )
    (tmp_path / "cells.py").write_text("\n\n".join([*code(), check]))
    circuits, kept = run(python, "-W", "ignore", "cells.py", cwd=tmp_path, timeout=600), html.unescape(shown())
    wanted = {"found": {"each->−1", "query->after-same-token"}, "named": {"next->heard", "query->next"}}
    for name, circuit in circuits.items():
        assert circuit["verdict"] == "circuit", circuit["reason"]
        assert wanted[name] <= {path.split(" ", 1)[1] for path in circuit["paths"]}
        assert "<svg" in circuit["html"]
        arrows = [path.replace("->", "→") for path in circuit["paths"]]
        assert all(path in kept for path in arrows), "run python docs/make_notebook_outputs.py your_model"
