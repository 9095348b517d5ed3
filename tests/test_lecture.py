"""The lecture notebook runs from top to bottom, in an empty folder, without a kernel."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "lecture.ipynb"


def test_every_cell_of_the_lecture_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 10
    for cell in cells:
        source = "".join(cell["source"])
        tree = ast.parse(source)
        exec(compile(tree, cell["id"], "exec"), names)
        assert cell["outputs"] == [], "the notebook is kept without outputs, so that none is stale"
    assert names["circuit"].accepted  # type: ignore[attr-defined]


@pytest.mark.parametrize("needed", ["discover", "problem_diagram", "minimum_depth", "build("])
def test_the_lecture_shows_what_it_promises(needed):
    assert needed in NOTEBOOK.read_text()
