"""What a step of training costs beside its arithmetic, counted, not timed: pages asked for anew, files looked for."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hopscope.configuration.config import Config, Training
from hopscope.core import allocator, catalogue
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.trainer import Trainer

#: Page faults of each of ten steps whose hidden layers take 5 MiB. As glibc comes, they are thousands.
COUNT = """
import resource, torch
torch.set_num_threads(1)
from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.trainer import Trainer
one = Trainer(
    Config(Retrieval(), Architecture(n_layers=1, d_model=16, d_mlp=512), Training(steps=99, batch=128)),
    torch.device("cpu"),
)
for step in range(15):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    one.step(step)
    if step >= 5:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def median_faults() -> int:
    root = Path(__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r})\n" + COUNT
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return sorted(map(int, done.stdout.split()))[5]


@pytest.mark.skipif(not allocator.keep_freed_memory(), reason="the C library is not glibc")
def test_a_step_uses_the_memory_of_the_one_before():
    assert median_faults() < 500


def test_without_glibc_nothing_is_told(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert allocator.keep_freed_memory.__wrapped__() is False


def test_a_step_looks_for_no_file(monkeypatch):
    shape = Architecture(n_layers=1, d_model=16)
    trainer = Trainer(Config(Retrieval(), shape, Training(steps=9, batch=4)), torch.device("cpu"))
    trainer.step(0)
    monkeypatch.setattr(catalogue, "home", lambda *_: pytest.fail("a step searched the catalogue"))
    trainer.step(1)
