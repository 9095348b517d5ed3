"""The example of a plug-in, installed as its README says: found by its entry point, trained, reproduced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.installs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder of packages with the example in it, built from a copy."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "examples" / "plugin", folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    offline = ["--no-build-isolation", "--no-index", "--target", folder / "site", folder / "source"]
    subprocess.run([*pip, *offline], check=True)
    return folder / "site"


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The command line where the plug-in is installed, away from its source."""
    path = os.pathsep.join([str(site), str(ROOT)])
    without = {name: value for name, value in os.environ.items() if name != "HOPSCOPE_PATH"}
    command = [sys.executable, "-m", "hopscope", *arguments]
    return subprocess.run(
        command, cwd=site, env={**without, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300, check=False
    )


def test_it_is_listed_and_not_imported(site):
    code = "import sys; from hopscope.cli import main; main(['list', '--json'])\n" + (
        "print([m for m in sys.modules if m.startswith(('torch', 'hopscope_example'))], file=sys.stderr)"
    )
    path = os.pathsep.join([str(site), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    listed = {kind: [v["name"] for v in variants] for kind, variants in json.loads(done.stdout).items()}
    assert "running_sum" in listed["tasks"] and "elman" in listed["models"] and "parity" in listed["experiments"]
    assert done.stderr == "[]\n"


def test_it_is_trained_and_what_it_was_is_recorded(site, tmp_path):
    where = ["--out", str(tmp_path / "run"), "--steps", "4", "--val-size", "8", "--threads", "1", "--json"]
    done = run(site, "train", "running_sum", "--length", "6", "--model", "elman(width=8)", *where)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["config"]["model"] == {"name": "elman", "width": 8}
    session = json.loads((tmp_path / "run" / "sessions.jsonl").read_text())
    assert set(session["environment"]["plugins"]) == {"tasks/running_sum.py", "models/elman.py"}


def test_its_study_is_reproduced(site, tmp_path):
    where = ["--runs", str(tmp_path / "runs"), "--results", str(tmp_path / "results"), "--json"]
    done = run(site, "reproduce", "parity", "--scale", "quick", *where)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["done"] and [claim["id"] for claim in said["claims"]] == ["parity_is_learnt"]


def test_a_plug_in_that_is_gone_is_named_in_one_sentence(site, tmp_path):
    shutil.copytree(next(site.glob("*.dist-info")), tmp_path / "hopscope_example-0.1.0.dist-info")
    done = run(tmp_path, "list")
    assert done.returncode == 2
    assert done.stderr == (
        "hopscope: the plug-in 'example' is installed without its package 'hopscope_example'; reinstall it\n"
    )
