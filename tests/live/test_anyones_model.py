"""The notebook of 25 lines, run whole in four fresh environments: each library's own model in place of its cell.

What hopscope requires, PyTorch above all, is lent by the environment of these tests: an environment is fresh by what
stands in it, and four more copies of the same pinned wheels would say nothing more. pip installs all the rest.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.exported import difference

ROOT = Path(__file__).parents[2]
CELLS, LONGER = (
    json.loads((ROOT / name).read_text())["cells"] for name in ("examples/anyones_model.ipynb", "docs/your_model.ipynb")
)
OURS, THEIRS = ROOT / "constraints.txt", ROOT / "bench" / "peers-constraints.txt"
#: By name of an environment, what is installed beside hopscope, and what pins it.
ENVIRONMENTS = {
    "PyTorch": ([], OURS),
    "transformers": (["transformers>=5,<6"], OURS),
    "transformer-lens 3": (["transformer-lens>=3,<4"], THEIRS),
    "transformer-lens 4": (["transformer-lens>=4,<5"], ROOT / "examples" / "transformer-lens-4-constraints.txt"),
}
#: What is said of all this at the end, as a line of JSON.
TOLD = """
import importlib.util, json, sys, time
print(json.dumps({
    "verdict": found.verdict,
    "reason": found.reason,
    "paths": sorted({str(one.path).split(" ", 1)[1] for one in found.circuit.paths}),
    "right": [[one.agrees, one.n] for one in found.program().trials],
    "onsets": [one.onset.step for one in seen.emergence.paths if one.onset.step is not None],
    "pictures": ["<svg" in one._repr_html_() for one in (found, seen)],
    "installed": [name for name in ("transformers", "transformer_lens") if importlib.util.find_spec(name)],
    "from": hopscope.__file__,
    "prefix": sys.prefix,
    "seconds": time.process_time(),
}))
"""
#: A model of transformers with grouped keys, and the bridge to it: how far logits and patterns are from each other.
BRIDGED = """
import hopscope, torch
from transformer_lens.model_bridge.sources import build_bridge_from_module
from transformers import LlamaConfig, LlamaForCausalLM
heads = dict(num_attention_heads=4, num_key_value_heads=2, attn_implementation="eager")
config = LlamaConfig(vocab_size=12, hidden_size=48, intermediate_size=96, num_hidden_layers=2, **heads)
inner, tokens = LlamaForCausalLM(config).eval(), torch.arange(24).view(2, 12) % 12
with torch.no_grad():
    known = inner(tokens, output_attentions=True)
    bridge = build_bridge_from_module(inner, "LlamaForCausalLM", hf_config=config)
    logits, cache = hopscope.wrap(bridge, tokens)(tokens, cache=True)
off = [logits - known.logits, *(cache["pattern", layer] - one for layer, one in enumerate(known.attentions))]
print(max(float(one.abs().max()) for one in off))
"""


def source(name: str) -> str:
    """The notebook's code with the model of an environment."""
    code = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
    words = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
    models = dict(re.findall(r"^([\w-]+(?: \d)?)[^\n]*:\n\n```python\n(.*?)```", words, re.M | re.S))
    models["PyTorch"] = next(cell for cell in code if "class Model" in cell)
    code[-1] = f"seen = {code[-1]}"
    return "\n".join(models[name] if cell == models["PyTorch"] else cell for cell in code)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_it_is_25_lines_of_ones_own(name):
    lines = [line for line in source(name).splitlines() if line.strip()]
    assert len(lines) <= 25 and max(map(len, lines)) <= 120
    assert ast.parse("\n".join(lines))
    assert all(cell.get("outputs", []) == [] for cell in CELLS)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Of each environment its Python and what the notebook's last line says there, two at a time."""
    folder = tmp_path_factory.mktemp("anyone")
    for package in ("hopscope", "hopscope_studies"):
        shutil.copytree(ROOT / package, folder / "source" / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):  # a copy, for building leaves files behind
        shutil.copy(ROOT / name, folder / "source")
    pip(sys.executable, OURS, "wheel", "--no-deps", "--wheel-dir", folder, folder / "source")
    (wheel,) = folder.glob("*.whl")
    lend(folder / "lent")
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(ENVIRONMENTS, pool.map(lambda name: report(name, folder, wheel), ENVIRONMENTS), strict=True))


def lend(folder: Path) -> None:
    """Links to what hopscope requires, and to what that requires."""
    folder.mkdir()
    waiting, lent = ["hopscope"], set()
    while waiting:
        if (name := waiting.pop()) not in lent:
            lent.add(name)
            needed = map(Requirement, distribution(name).requires or [])
            waiting += [one.name for one in needed if not one.marker or one.marker.evaluate({"extra": ""})]
    for name in lent - {"hopscope"}:
        for top in {file.parts[0] for file in distribution(name).files or []} - {"..", "__pycache__"}:
            (folder / top).symlink_to(distribution(name).locate_file(top))


def report(name: str, folder: Path, wheel: Path) -> tuple[Path, dict]:
    place, (packages, pins) = folder / name.replace(" ", "-"), ENVIRONMENTS[name]
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / "bin" / "python"
    (next(place.glob("lib/python*/site-packages")) / "lent.pth").write_text(str(folder / "lent"))
    pip(python, pins, "install", "--no-compile", wheel, *packages)
    (place / "cells.py").write_text(source(name) + TOLD)
    without = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [python, "-W", "ignore", "cells.py"]
    done = subprocess.run(command, cwd=place, env=without, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout.strip().split("\n")[-1])
    return python, found


def pip(python: str | Path, pins: Path, *arguments: str | Path) -> None:
    kept = {**os.environ, "PIP_CONSTRAINT": str(pins), "PIP_BUILD_CONSTRAINT": str(pins)}
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, env=kept, check=True)


@pytest.mark.slow
@pytest.mark.installs
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_in_a_fresh_environment_the_circuit_is_found_followed_and_run(reports, name):
    _, found = reports[name]
    assert found["verdict"] == "circuit", found["reason"]
    assert {"next->heard", "query->next"} <= set(found["paths"])
    assert all(agrees >= 0.99 * n > 0 for agrees, n in found["right"])
    assert found["onsets"] and all(0 < step < 450 for step in found["onsets"])
    assert found["pictures"] == [True, True]
    assert found["seconds"] < 300, "five minutes even on one core"
    assert Path(found["from"]).is_relative_to(found["prefix"])
    wanted = {"PyTorch": [], "transformers": ["transformers"]}
    assert found["installed"] == wanted.get(name, ["transformers", "transformer_lens"])


@pytest.mark.slow
@pytest.mark.installs
@pytest.mark.parametrize("version", [3, 4])
def test_a_bridge_is_seen_through(reports, version):
    """Also that of version 3, which does not read what replaces its patterns by its own hooks."""
    python, _ = reports[f"transformer-lens {version}"]
    done = subprocess.run([python, "-W", "ignore", "-c", BRIDGED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < 1e-5


@pytest.mark.slow
@pytest.mark.installs
def test_the_longer_notebook_runs_with_version_4(reports, tmp_path):
    """docs/your_model.ipynb; tests/live/test_hooked.py has version 3."""
    python, _ = reports["transformer-lens 4"]
    code = ["".join(cell["source"]) for cell in LONGER if cell["cell_type"] == "code"]
    code.append(
        "for one in (found, named): print(one.verdict, *(str(part.path) for part in one.circuit.paths), sep=';')"
    )
    (tmp_path / "cells.py").write_text("\n\n".join(code))
    command = [python, "-W", "ignore", "cells.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    kinds = ({"each->−1", "query->after-same-token"}, {"next->heard", "query->next"})
    for wanted, (verdict, *paths) in zip(
        kinds, (line.split(";") for line in done.stdout.splitlines()[-2:]), strict=True
    ):
        assert verdict == "circuit" and wanted <= {path.split(" ", 1)[1] for path in paths}


@pytest.mark.slow
@pytest.mark.installs
def test_what_is_exported_is_loaded_by_version_4(reports, tmp_path):
    """By a `TransformerBridge`; tests/runs/test_exporting.py has version 3."""
    python, _ = reports["transformer-lens 4"]
    assert difference(python, "vectors", tmp_path) < 1e-5
