"""A new file in a folder is found, listed and tested without another edit: done for real, in a copy of the project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.core import catalogue
from hopscope.core.settings import BadInput

ROOT = Path(__file__).parents[2]

NEW = {
    "tasks/two_step.py": '''"""A task made in a test: retrieval with exactly two hops (after Musat, section 6)."""
from dataclasses import dataclass
from functools import cached_property

from hopscope.problem.factsheet import FactSheet
from hopscope.problem.shapes import chain_shape
from hopscope.tasks.base_sheets import SheetVectorTask


@dataclass(frozen=True)
class TwoStep(SheetVectorTask):
    """Two hops."""

    @cached_property
    def sheet(self) -> FactSheet:
        return FactSheet(self.n_chains, chain_shape(2), self.order)
''',
    "models/attention/halved.py": '''"""An attention variant made in a test: softmax at another temperature."""
from dataclasses import dataclass

import torch

from hopscope.core.settings import setting
from hopscope.models.attention.base import Attention


@dataclass(frozen=True)
class Halved(Attention):
    """Scores are scaled, and each head learns by how much."""

    temperature: float = setting(2.0, "of the softmax", low=0.1)
    gain: float = setting(1.0, "where each head's own factor starts", low=0)

    def own(self, n_heads, d_head):
        return {"factor": torch.full((n_heads, 1, 1), self.gain)}

    def attend(self, q, k, v, mask, own):
        return (own["factor"] / self.temperature * q @ k.transpose(-1, -2) + mask).softmax(-1), v
''',
    "measures/own_attention.py": '''"""A measure made in a test: attention to oneself (ours)."""

RANGE = (0.0, 1.0)


def own_attention(seen):
    """Mean attention of a position to itself, per head."""
    return {name: float(p.diagonal(0, -2, -1).mean()) for name, p in seen.patterns()}
''',
    "studies/tiny/__init__.py": '"""A study made in a test."""',
    "studies/tiny/experiments/tiny.py": '''"""An experiment made in a test: one run (Musat, section 7, in miniature)."""
from matplotlib.figure import Figure

from hopscope import Architecture, Config, Training
from hopscope.experiments.curves import hop_curves_of
from hopscope.experiments.judging import judge
from hopscope.tasks.retrieval import Retrieval

SECONDS = {"quick": 1, "cpu": 1, "paper": 1}
CLAIMS = ("one",)


def runs(scale):
    yield Config(Retrieval(n_hops=1), Architecture(n_layers=1, d_model=8), Training(steps=2, batch=4, val_size=4))


def table(runs, scale):
    return hop_curves_of(runs)


def figure(table):
    figure = Figure()
    figure.add_subplot().plot(table.step, table.hop_loss)
    return figure


def claims(table):
    yield judge("one", "A loss is a square.", table.hop_loss, "loss", section="7", rows=table, at_least=0)
''',
    "formulations/errands.py": '''"""A formulation made in a test: who was sent by whom (after Musat, section 4)."""
from dataclasses import dataclass

from hopscope.formulations.base_chain import ChainFormulation
from hopscope.formulations.base_names import LETTERS, PEOPLE
from hopscope.core.settings import setting


@dataclass(frozen=True)
class Errands(ChainFormulation):
    """Errands are letters; people send people on them."""

    n_hops: int = setting(2, "hops", low=1, high=8)
    n_chains: int = setting(4, "chains", low=2, high=6)

    def symbols(self, k):
        return LETTERS[: self.n_chains] if k == self.n_hops else PEOPLE[k * self.n_chains : (k + 1) * self.n_chains]

    def template(self, k):
        return "{} runs errand {}" if k == self.n_hops else "{} is sent by {}"

    def closing(self):
        return "Whose errand does {} run? Say directly only the letter.", "{} runs errand"
''',
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of package and contract tests, with one new file in every folder."""
    root = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "hopscope", root / "hopscope", ignore=ignore)
    shutil.copytree(ROOT / "tests" / "contracts", root / "tests" / "contracts", ignore=ignore)
    for name in ("pyproject.toml", "tests/conftest.py", "tests/small_runs.py"):
        shutil.copy(ROOT / name, root / name)
    for name, text in NEW.items():
        assert not (root / "hopscope" / name).exists()
        (root / "hopscope" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "hopscope" / name).write_text(text)
    return root


def python(root: Path, *arguments: str) -> str:
    """Run a module of the copy, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_new_files_are_listed(copy):
    listed = json.loads(python(copy, "hopscope", "list", "--json"))
    names = {kind: [variant["name"] for variant in variants] for kind, variants in listed.items()}
    assert "two_step" in names["tasks"]
    assert "halved" in names["attention"]
    assert "own_attention" in names["measures"]
    assert "tiny" in names["experiments"]
    assert "errands" in names["formulations"]
    summaries = {v["name"]: v["summary"] for v in listed["tasks"]}
    assert summaries["two_step"].startswith("A task made in a test")


def test_new_files_are_in_the_contract_tests(copy):
    names = ("two_step", "halved", "own_attention", "tiny", "errands")
    out = python(copy, "pytest", "-q", "-rp", "-p", "no:cacheprovider", "tests/contracts", "-k", " or ".join(names))
    passed = [line for line in out.splitlines() if line.startswith("PASSED")]
    assert [name for name in names if not any(name in line for line in passed)] == [] and "failed" not in out


def test_new_tasks_and_formulations_have_their_commands(copy):
    sample = json.loads(python(copy, "hopscope", "sample", "two_step", "--chains", "2", "--json"))
    assert len(sample["answers"][0]) == 2
    (asked,) = json.loads(python(copy, "hopscope", "ask", "errands", "--hops", "3", "--json"))
    assert len(asked["chain"]) == 4


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(BadInput, match="did you mean 'retrieval'"):
        catalogue.find("tasks", "retreival")
    with pytest.raises(BadInput, match="choose one of"):
        catalogue.find("tasks", "zzz")


def test_a_folder_that_is_not_there_offers_nothing():
    assert catalogue.names("no_such_folder") == []


def test_what_stands_in_a_study_is_found_like_what_stands_in_the_library():
    assert "trigger_bigrams" in catalogue.names("tasks")
    assert catalogue.find("tasks", "trigger_bigrams").__module__ == "hopscope.studies.birth.tasks.trigger_bigrams"
    assert catalogue.find("measures", "part_loss").__module__ == "hopscope.studies.facts.measures.part_loss"


def test_files_of_a_frame_are_no_variants():
    assert {"fig4", "birth"} <= set(catalogue.names("experiments"))
    assert not {"capacity", "variants", "circuit_tables"} & set(catalogue.names("experiments"))


def test_names_are_listed_without_an_import(copy):
    code = (
        "import sys; from hopscope.core import catalogue; catalogue.names('tasks'), catalogue.names('experiments');"
        "print([name for name in sys.modules if name.startswith(('hopscope.tasks', 'hopscope.studies', 'torch'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_in_two_places_is_refused(monkeypatch, tmp_path):
    library = catalogue.Root("lab", tmp_path)
    for folder in ("tasks", "studies/one/tasks", "studies/one"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "__init__.py").touch()
    for folder in ("tasks", "studies/one/tasks"):
        (tmp_path / folder / "recall.py").touch()
    monkeypatch.setattr(catalogue, "LIBRARY", library)
    with pytest.raises(BadInput, match=r"'recall' both in lab\.tasks and in lab\.studies\.one\.tasks; rename one"):
        catalogue.names("tasks")
    (tmp_path / "tasks" / "recall.py").unlink()
    assert catalogue.names("tasks") == ["recall"]
