"""The lecture notebook runs from top to bottom, in an empty folder, without a kernel."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "lecture.ipynb"


def test_every_cell_of_the_lecture_runs_and_shows_what_the_notebook_keeps(tmp_path, monkeypatch):
    """Texts are the same but for the last digits of numbers; where there is a picture, a picture is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(NOTEBOOK.parent)
    import make_notebook_outputs as outputs

    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in outputs.run(copy.deepcopy(kept))["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 10 and len([cell for cell in cells if cell["outputs"]]) > 8
    for cell, before in zip(cells, (cell for cell in kept["cells"] if cell["cell_type"] == "code"), strict=True):
        now, then = (rounded(one["outputs"]) for one in (cell, before))
        assert now == then, "run python docs/make_notebook_outputs.py lecture"


def rounded(outputs: list[dict[str, Any]]) -> list[Any]:
    """By output its kinds and its text, in which numbers have two decimals; a figure's own text is only its size."""
    told = [one.get("data", {"text/plain": one.get("text", ())}) for one in outputs]
    near = lambda found: f"{float(found[0]):.2f}"  # noqa: E731
    return [(sorted(data), re.sub(r"\d+\.\d+", near, "".join(data["text/plain"]))) for data in told]


@pytest.mark.parametrize("needed", ["discover", "problem_diagram", "minimum_depth", "build("])
def test_the_lecture_shows_what_it_promises(needed):
    assert needed in NOTEBOOK.read_text()
