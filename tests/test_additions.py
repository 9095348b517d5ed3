"""What is added is found, listed and tested without another edit: by hand, by `hopscope new`, and from outside.

Done for real, in a copy of the project. Its contract tests run once, with all of them in place.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.cli.commands.new import KINDS
from hopscope.core import outside

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]
#: As long as a name may be, so that no line of a skeleton is too long.
LONG = "x_of_thirty_two_letters_"
#: The example of a folder of one's own, and what it brings.
EXAMPLE = ROOT / "examples" / "plugin" / "hopscope_example"
BROUGHT = ("running_sum", "elman", "parity")

#: A file by hand in every folder.
NEW = {
    "hopscope/tasks/two_step.py": '''"""A task made in a test: retrieval with two hops (after Musat, section 6)."""
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
    "hopscope/models/attention/halved.py": '''"""An attention variant made in a test: softmax at another temperature."""
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
    "hopscope/measures/own_attention.py": '''"""A measure made in a test: attention to oneself (ours)."""
from hopscope.measures.base import attention

RANGE = (0.0, 1.0)
NEEDS = (attention,)


def own_attention(seen):
    """Mean attention of a position to itself, per head."""
    return {name: float(p.diagonal(0, -2, -1).mean()) for name, p in seen.patterns()}
''',
    "hopscope_studies/tiny/__init__.py": '"""A study made in a test."""',
    "hopscope_studies/tiny/README.md": "# A study made in a test\n",
    "hopscope_studies/tiny/experiments/__init__.py": "",
    "hopscope_studies/tiny/experiments/tiny.py": '''"""An experiment made in a test: one run (Musat, section 7)."""
from matplotlib.figure import Figure

from hopscope.configuration.config import Config, Training
from hopscope.experiments.curves import hop_curves_of
from hopscope.experiments.judging import judge
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval

SECONDS = {"quick": 1, "cpu": 1, "paper": 1}


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
    "hopscope/formulations/errands.py": '''"""A formulation made in a test: who sent whom (after Musat, section 4)."""
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
#: What is copied: packages, and what their tests need beside contracts.
PACKAGES = ("hopscope", "hopscope_studies")
OF_TESTS = ("brief_reports", "checking", "pictures", "small_runs", "test_architecture")
BY_HAND = ("two_step", "halved", "own_attention", "tiny", "errands")


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of package and contract tests: a new file by hand in every folder, and two of each kind by the command."""
    root = tmp_path_factory.mktemp("checkout")
    ignore = shutil.ignore_patterns("__pycache__", "tests", "results", "images")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, root / name, ignore=ignore)
    shutil.copytree(ROOT / "tests" / "contracts", root / "tests" / "contracts", ignore=ignore)
    for name in ("pyproject.toml", "conftest.py", *(f"tests/{name}.py" for name in OF_TESTS)):
        shutil.copy(ROOT / name, root / name)
    if (ROOT / ".mypy_cache").is_dir():  # what was found of files that are the same
        shutil.copytree(ROOT / ".mypy_cache", root / ".mypy_cache")
    for name, text in NEW.items():
        assert not (root / name).exists()
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for kind in KINDS:
        for name in (f"new_{kind}", f"{LONG}{kind}"[:32].rstrip("_")):
            said = python(root, "hopscope", "new", kind, name)
            assert "is written: a skeleton that works" in said and f"pytest tests/contracts -k {name}" in said
    return root


def python(root: Path, *arguments: str, **environment: str) -> str:
    """Run a module of the copy, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "MYPYPATH": str(root), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def skeletons(root: Path) -> list[str]:
    """The files that the command has written."""
    files = (str(path.relative_to(root)) for package in PACKAGES for path in (root / package).rglob("*.py"))
    return sorted(file for file in files if not (ROOT / file).exists() and file not in NEW)


@pytest.fixture(scope="module")
def listed(copy) -> dict[str, dict[str, str]]:
    """Summaries of all that the copy offers, by kind and name."""
    said = json.loads(python(copy, "hopscope", "list", "--json"))
    return {kind: {variant["name"]: variant["summary"] for variant in variants} for kind, variants in said.items()}


def test_new_files_are_listed(listed):
    assert "two_step" in listed["tasks"]
    assert "halved" in listed["attention"]
    assert "own_attention" in listed["measures"]
    assert "tiny" in listed["experiments"]
    assert "errands" in listed["formulations"]
    assert listed["tasks"]["two_step"].startswith("A task made in a test")


def test_skeletons_are_listed(listed):
    assert {f"new_{kind}" for kind in KINDS} <= {name for variants in listed.values() for name in variants}


def test_skeletons_are_clean(copy):
    """Style, form and types, also of a name of 32 letters."""
    files = skeletons(copy)
    assert len(files) == 2 * (len(KINDS) - 1 + 3)
    python(copy, "ruff", "check", *files)
    python(copy, "ruff", "format", "--check", *files)
    python(copy, "mypy", *files)


@pytest.fixture(scope="module")
def passed(copy) -> list[str]:
    """The tests that pass in the copy: all that concern what was added. None of them fails or is skipped.

    With the example named by HOPSCOPE_PATH, as its README says of a clone.
    """
    tests = ["tests/contracts", "tests/test_architecture.py"]
    form = "(test_architecture and not training_path and not every_name)"  # names are for ruff, above
    wanted = ["(new_ and not x_of)", form, *BY_HAND, *BROUGHT]
    chosen = ["-q", "-rp", "-p", "no:cacheprovider", *tests, "-k", " or ".join(wanted)]
    out = python(copy, "pytest", *chosen, **{outside.VARIABLE: str(EXAMPLE)})
    assert "skipped" not in out and "failed" not in out
    return [line for line in out.splitlines() if line.startswith("PASSED")]


@pytest.mark.parametrize("name", BY_HAND)
def test_new_files_are_in_the_contract_tests(passed, name):
    assert any(name in line and "contracts" in line for line in passed)


@pytest.mark.parametrize("kind", KINDS)
def test_skeletons_pass_their_contract_tests(passed, kind):
    """All that concern them, and of each kind there are some."""
    assert sum(f"new_{kind}" in line and "contracts" in line for line in passed) >= 2


@pytest.mark.parametrize("name", BROUGHT)
def test_the_example_passes_the_contract_tests(passed, name):
    assert any(name in line and "contracts" in line for line in passed)


def test_new_tasks_and_formulations_have_their_commands(copy):
    sample = json.loads(python(copy, "hopscope", "sample", "two_step", "--chains", "2", "--json"))
    assert len(sample["answers"][0]) == 2
    (asked,) = json.loads(python(copy, "hopscope", "ask", "errands", "--hops", "3", "--json"))
    assert len(asked["chain"]) == 4


def test_a_new_study_is_reproduced(copy):
    where = ["--runs", "runs", "--results", "results", "--json"]
    said = json.loads(python(copy, "hopscope", "reproduce", "new_study", "--scale", "quick", *where))
    assert said["done"] and len(said["claims"]) == 1
    readme = (copy / "hopscope_studies" / "new_study" / "README.md").read_text()
    wanted = ["**Question.**", "in five lines", "Picture", "Claims", "How to run", "Our readings", "change our mind"]
    places = [readme.index(words) for words in wanted]
    assert places == sorted(places)


def test_names_are_listed_without_an_import(copy):
    code = (
        "import sys; from hopscope.core import catalogue; catalogue.names('tasks'), catalogue.names('experiments');"
        "print([name for name in sys.modules if name.startswith(('hopscope.tasks', 'hopscope_studies', 'torch'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
