"""The package on each Python that is here, without PyTorch, of which not every Python has a build for the CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from hopscope.cli import main
from hopscope.core import catalogue
from hopscope.experiments.results import all_claims
from tests.small_runs import trained

pytestmark = pytest.mark.installs

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
#: Commands that need no PyTorch, and whose answers therefore no Python changes.
LIGHT = (["--help"], ["list"], ["depth", "3"], ["ask", "equations", "--hops", "3"])


def interpreter(version: str) -> str | None:
    """Where a Python of this version is, if it is here."""
    found = shutil.which(f"python{version}")
    if found is None or Path(found).parent.name != "shims":
        return found
    # pyenv's stand-in runs only what is switched on; the interpreters themselves are beside it.
    return max(map(str, Path(found).parents[1].glob(f"versions/{version}.*/bin/python")), default=None)


HERE = {version: found for version in VERSIONS if (found := interpreter(version))}


def pip(python: str | Path, *arguments: str | Path) -> None:
    """pip of a Python, with our pins."""
    pins = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "PIP_BUILD_CONSTRAINT": str(ROOT / "constraints.txt")}
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, env={**os.environ, **pins}, check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The package, which is the same for each Python."""
    folder = tmp_path_factory.mktemp("wheel")
    for package in ("hopscope", "hopscope_studies"):
        shutil.copytree(ROOT / package, folder / "source" / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):  # a copy, for building leaves files behind
        shutil.copy(ROOT / name, folder / "source")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder, folder / "source")
    (found,) = folder.glob("*-py3-none-any.whl")
    return found


@pytest.fixture(scope="module", params=HERE)
def installed(request, wheel, tmp_path_factory) -> Path:
    """The folder of commands of an environment with all that hopscope requires but PyTorch."""
    folder = tmp_path_factory.mktemp("without-torch")
    subprocess.run([HERE[request.param], "-m", "venv", folder / "venv"], check=True)
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = [line for line in required if not line.startswith("torch")]
    # What is imported is compiled then; most of it never is.
    for arguments in (wanted, ["--no-deps", wheel]):
        pip(folder / "venv" / "bin" / "python", "install", "--no-compile", *arguments)
    return folder / "venv" / "bin"


def run(commands: Path, *arguments: str) -> subprocess.CompletedProcess:
    """The installed command line, away from any checkout."""
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [commands / "hopscope", *arguments]
    return subprocess.run(command, cwd=commands, env=without, capture_output=True, text=True, timeout=300)


def test_light_commands_answer_as_they_do_here(installed, capsys):
    for arguments in LIGHT:
        assert main(arguments) == 0
        done = run(installed, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == capsys.readouterr().out


def test_sample_describes_the_task(installed):
    done = run(installed, "sample", "retrieval")
    assert (done.returncode, done.stderr) == (0, "")
    assert "a1 a2  b1 b2     b0 b1  a0 a1     a0  b0     a1 a2,  b1 b2" in done.stdout
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["sample", "retrieval", "--seed", "1"], ["train", "retrieval"], ["show", "packaged"]]
)
def test_what_needs_pytorch_says_so_in_one_sentence(installed, arguments):
    done = run(installed, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "PyTorch, which is not installed; run pip install torch" in done.stderr


def test_the_wheel_carries_the_page(installed):
    """Its built files, byte for byte: whoever installs with pip need not have Node."""
    (there,) = installed.parent.glob("lib/python*/site-packages/hopscope/explorer/static")
    built = ROOT / "hopscope" / "explorer" / "static"
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: path.read_bytes() for path in built.iterdir()
    }
    assert {"page.js", "page.css", "widget.js"} <= {path.name for path in there.iterdir()}


def test_the_wheel_brings_studies_and_their_claims_and_leaves_tests_and_tables_out(installed):
    (there,) = installed.parent.glob("lib/python*/site-packages/hopscope_studies")
    rooms = [there / root.path.name for root in catalogue.ours()[0].studies()]
    for room in rooms:
        assert (room / "README.md").is_file() and (room / "__init__.py").is_file() and not (room / "tests").exists()
        assert {path.name for path in room.rglob("results/*/*")} == {"claims.json"}
    assert (there / "birth" / "data" / "tinyshakespeare_bigrams.json").is_file() or there / "birth" not in rooms
    assert all_claims(there) == all_claims(ROOT / "hopscope_studies")


def test_a_page_is_exported_without_node(installed, tmp_path):
    """By the installed wheel, with the PyTorch of this environment and no program but Python within reach."""
    if (installed / "python").resolve() != Path(sys.executable).resolve():
        return  # of another Python's PyTorch there is none here
    packages = Path(torch.__file__).parents[1]
    run = trained(tmp_path / "run")
    env = {"PATH": str(installed), "PYTHONPATH": str(packages), "HOPSCOPE_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    code = "import hopscope.cli, sys; print(hopscope.cli.__file__); sys.exit(hopscope.cli.main())"
    command = [installed / "python", "-c", code, "explore", run.path, "--export", "page.html"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    where, told = done.stdout.splitlines()
    assert done.returncode == 0 and Path(where).is_relative_to(installed.parent), done.stderr
    assert told.startswith("page.html: ")
    assert b"application/octet-stream;base64" in (tmp_path / "page.html").read_bytes()


def test_this_python_is_among_them():
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in HERE
