"""Every study says what it is: a docstring, and a README whose links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "hopscope" / "studies"


@pytest.fixture(params=sorted(p.name for p in STUDIES.iterdir() if p.is_dir() and p.name != "__pycache__"))
def study(request) -> Path:
    return STUDIES / request.param


def test_it_has_a_docstring_and_an_experiment(study):
    assert ast.get_docstring(ast.parse((study / "__init__.py").read_text()))
    assert [path for path in study.glob("experiments/*.py") if path.stem != "__init__"]


def test_links_of_its_readme_lead_somewhere(study):
    """Into docs/, for of a README only those links are links between pages of the site (docs/study_pages.py)."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (study / "README.md").read_text())
    for link in links:
        assert link.startswith("https://") or ("/docs/" in link and (study / link).is_file()), link
