"""The habits of a public project: one version everywhere, a citation, and checks that are stated once."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; run make language")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_that_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {
        "cff-version",
        "message",
        "title",
        "authors",
    } <= citation.keys()  # what version 1.2.0 of the format requires
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert citation["version"] == PROJECT["version"] and citation["license"] == PROJECT["license"]
    assert citation["authors"] == [{"name": author["name"]} for author in PROJECT["authors"]]


@pytest.mark.parametrize(
    "name", ["demo", "demo-2", "packaged-circuit", "packaged-emergence", "packaged-pictures", "evaluations", "runs"]
)
def test_what_commands_write_into_a_clone_by_default_is_ignored(name):
    """Results of the default run and of the packaged one, of evaluations and of experiments."""
    assert any(fnmatch(f"/{name}/", pattern) for pattern in (ROOT / ".gitignore").read_text().split())


def test_the_changelog_opens_with_this_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert first and first[1] == PROJECT["version"]


def test_the_workflow_only_calls_what_must_pass():
    (job,) = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_what_runs_before_a_commit_is_part_of_make_check():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (hook,) = repository["hooks"]
    command, target = hook["entry"].split()
    makefile = (ROOT / "Makefile").read_text()
    assert command == "make" and re.search(rf"^check: {target}\b", makefile, re.M)
    assert re.search(rf"^{target}:.*\n(\t.*\n)*\t\$\(BIN\)/ruff check.*\n(\t.*\n)*\t\$\(BIN\)/mypy", makefile, re.M)


def test_every_test_that_the_security_page_names_is_there():
    rows = re.findall(r"^\| .* \| `([\w/]+\.py)`: (.*) \|$", (ROOT / "docs" / "security.md").read_text(), re.M)
    named = [(file, name) for file, names in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(rows) > 30
    missing = [(f, n) for f, n in named if f"def {n}(" not in (ROOT / "tests" / f).read_text()]
    assert not missing
