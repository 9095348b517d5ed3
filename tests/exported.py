"""Models drawn at random, written for TransformerLens, and computed by whichever version an environment has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import safetensors.torch
import torch

from hopscope.core.seeds import generator
from hopscope.models.transformer import Architecture, Transformer
from hopscope.runs.exporting import transformer_lens_files
from hopscope.tasks.induction import Induction
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.gradient_descent.tasks.linear_regression import LinearRegression

TASKS = {
    "vectors": Retrieval(n_hops=1, n_chains=2),
    "vectors without positions": LinearRegression(),
    "tokens": Induction(length=8, d_vocab=9),
}
COMPARE = """
import json, sys
from pathlib import Path
import torch
from safetensors.torch import load_file
sys.argv = ["load.py"]
code = Path("load.py").read_text()
names = {"__file__": str(Path("load.py").resolve())}
exec(compile(code, "load.py", "exec"), names)
given = load_file("given.safetensors")
with torch.no_grad():
    found = names["run"](given["inputs"]) if "run" in names else names["model"](given["inputs"])
print(float((found - given["outputs"]).abs().max()))
"""


def drawn(task, **shape):
    """A model far from linear."""
    model, random = (
        Transformer.for_task(Architecture(n_layers=2, n_heads=2, d_model=16, **shape), task),
        generator(3, "x"),
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=random) + name.endswith(".w"))
    return model.eval()


def write_transformer_lens(model, task, folder):
    for name, data in transformer_lens_files(model, task).items():
        (folder / name).write_bytes(data)


def difference(python: Path, kind: str, folder: Path) -> float:
    """The largest, of outputs, between ours and what the very lines beside the weights load in an environment."""
    model, inputs = drawn(TASKS[kind]), TASKS[kind].sample(5, 0).inputs
    write_transformer_lens(model, TASKS[kind], folder)
    with torch.no_grad():
        safetensors.torch.save_file({"inputs": inputs, "outputs": model(inputs)}, folder / "given.safetensors")
    done = subprocess.run(
        [python, "-W", "ignore", "-c", COMPARE], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])
