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

ROOT = Path(__file__).parents[2]
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
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + COUNT
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return sorted(map(int, done.stdout.split()))[5]


@pytest.mark.skipif(not allocator.keep_freed_memory(), reason="the C library is not glibc")
def test_a_step_uses_the_memory_of_the_one_before():
    assert median_faults() < 500


#: How much of the heap may lie in huge pages, in KiB, and how much more memory a process holds for having asked.
HUGE = """
import resource
from pathlib import Path
from hopscope.core.allocator import keep_freed_memory
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
keep_freed_memory()
heap = Path("/proc/self/smaps").read_text().split("[heap]")[1:]
asked = [part for part in heap if " hg" in part.split("VmFlags:")[1].split("\\n")[0]]
print(sum(int(part.split("Size:")[1].split()[0]) for part in asked))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(not allocator.keep_freed_memory(), reason="the C library is not glibc")
def test_the_heap_may_lie_in_huge_pages_and_costs_nothing_until_it_is_used():
    if not Path("/sys/kernel/mm/transparent_hugepage").is_dir():
        return  # a system without such pages: whoever asks is refused, and trains as before
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + HUGE
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wide, more = map(int, done.stdout.split())
    assert wide >= (allocator.WIDE - 2 * allocator.HUGE) // 1024 and more < 4096


def test_who_has_no_room_trains_as_before():
    """Under a limit of addresses, as batch systems set it."""
    code = f"import sys, resource; sys.path.insert(0, {str(ROOT)!r})\nfrom hopscope.core import allocator\n"
    code += "resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\nprint(allocator.keep_freed_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(allocator.keep_freed_memory())


def test_without_glibc_nothing_is_told(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert allocator.keep_freed_memory.__wrapped__() is False


def test_a_step_looks_for_no_file(monkeypatch):
    shape = Architecture(n_layers=1, d_model=16)
    trainer = Trainer(Config(Retrieval(), shape, Training(steps=9, batch=4)), torch.device("cpu"))
    trainer.step(0)
    monkeypatch.setattr(catalogue, "home", lambda *_: pytest.fail("a step searched the catalogue"))
    trainer.step(1)
