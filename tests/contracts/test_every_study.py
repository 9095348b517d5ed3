"""Every study says what it is: a docstring, and a README whose links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from hopscope.core import catalogue


@pytest.fixture(params=[root.path for root in catalogue.ours()[0].studies()], ids=lambda path: path.name)
def study(request) -> Path:
    return request.param


def test_what_lies_beside_them_is_one(study):
    """A folder without experiments would be found by nobody."""
    beside = {path for path in study.parent.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert beside == {root.path for root in catalogue.ours()[0].studies()}


def test_it_has_a_docstring_and_an_experiment(study):
    assert ast.get_docstring(ast.parse((study / "__init__.py").read_text()))
    assert [path for path in study.glob("experiments/*.py") if path.stem != "__init__"]


def test_with_results_nothing_of_the_skeleton_is_left(study):
    said = (study / "__init__.py").read_text() + (study / "README.md").read_text()
    left = re.search(r"Found: Nothing yet|\(A placeholder|: state the study's question", said)
    assert left is None or not (study / "results").exists()


def test_links_of_its_readme_lead_somewhere(study):
    """Into docs/, or to its own pictures: those links are links of the site, too (docs/study_pages.py)."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (study / "README.md").read_text())
    for link in links:
        known = link.startswith(("../../docs/", "results/", "images/"))
        assert link.startswith("https://") or (known and (study / link).is_file()), link


def test_its_parts_can_be_imported_as_the_documentation_does(study):
    """The catalogue reads folders without `__init__.py`, too; the pages of docs/ do not."""
    folders = {path.parent for path in study.rglob("*.py")} - {study / "tests"}
    assert not [folder for folder in folders if not (folder / "__init__.py").is_file()]


def test_all_there_is_of_it_is_in_its_room(study):
    """Every experiment has its results there, and of no other are any."""
    experiments = {path.stem for path in study.glob("experiments/*.py")} - {"__init__"}
    judged = {path.parent.name for path in study.glob("results/*/claims.json")}
    assert judged == experiments or not (study / "results").exists()  # which a study that is begun has not
