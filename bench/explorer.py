"""What the explorer's page costs: its bytes, and how long its engine takes to answer, with the budgets it must keep.

    python -m bench.explorer [--json bench/explorer.json]        (needs Node and `npm ci --prefix explorer`)

The engine runs in Node, in WebAssembly and in plain TypeScript; beside it PyTorch on one thread. Models are the demo's
shape, four layers of one head, and twelve layers of eight heads, 128 wide. A path of the first layer is knocked out, so
that nothing of the model as it is can be used again. Numbers are medians of five, after one to warm up.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path as File
from typing import Any

import torch

from hopscope.circuits.evaluator import Evaluator, Silenced
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval
from tests.explorer.node_engine import answers, ask, case, worded

STATIC = File(__file__).parents[1] / "hopscope" / "explorer" / "static"
MODELS = {"demo": Architecture(n_layers=4, n_heads=1), "12 layers of 8 heads": Architecture(n_layers=12, n_heads=8)}
SIZES = (8, 64, 256)
TIMES = 5
#: Bytes gzipped, and milliseconds.
BUDGETS = {"page, gzipped": 60 * 1024, "demo, 8 sequences": 100.0, "demo, 64 sequences": 500.0}


@dataclass(frozen=True)
class Measured:
    """One number.

    Attributes:
        what: was measured.
        median: in the unit.
        least: of the five.
        most: of the five.
        unit: bytes or ms.
        budget: the most that it may be; None: there is none.
    """

    what: str
    median: float
    least: float
    most: float
    unit: str
    budget: float | None = None

    @property
    def kept(self) -> bool:
        return self.budget is None or self.median <= self.budget

    def __str__(self) -> str:
        spread = "" if self.least == self.most else f" ({self.least:.1f}–{self.most:.1f})"
        verdict = "" if self.budget is None else f"; budget {self.budget:g}: {'kept' if self.kept else 'NOT KEPT'}"
        return f"{self.what}: {self.median:.1f} {self.unit}{spread}{verdict}"


def of_times(what: str, times: list[float]) -> Measured:
    """The median of some milliseconds, without the first."""
    later = times[1:]
    return Measured(what, statistics.median(later), min(later), max(later), "ms", BUDGETS.get(what))


def page() -> Measured:
    """The page's script and style, as they are sent gzipped."""
    files = [STATIC / name for name in ("page.js", "page.css")]
    size = float(sum(len(gzip.compress(file.read_bytes(), 9)) for file in files))
    return Measured("page, gzipped", size, size, size, "bytes", BUDGETS["page, gzipped"])


def engine(name: str, *, plain: bool) -> list[Measured]:
    """The engine's times of one model; in plain TypeScript of eight sequences alone."""
    task = Retrieval()
    model = MODELS[name].build(task, torch.Generator().manual_seed(0))
    evaluator = Evaluator(model, task.sample(SIZES[-1], 1))
    change = Silenced(frozenset(evaluator.ground.paths[:1]))
    sizes = SIZES[:1] if plain else SIZES
    asks = [ask(worded(change), [size]) for size in sizes]
    [found] = answers(case(model, evaluator.batch, asks, plain=plain, repeat=TIMES + 1))
    words = " without SIMD" if plain else ""
    return [
        of_times(f"{name}, {size} sequences{words}", answer["times"]) for size, answer in zip(sizes, found, strict=True)
    ]


def pytorch(name: str) -> Measured:
    """PyTorch's time for 64 sequences, on one thread, with the same change."""
    task = Retrieval()
    model = MODELS[name].build(task, torch.Generator().manual_seed(0))
    evaluator, times = Evaluator(model, task.sample(SIZES[1], 1)), []
    change = Silenced(frozenset(evaluator.ground.paths[:1]))
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        evaluator.accounts([change])
        times.append(1000 * (time.perf_counter() - began))
    return of_times(f"{name}, {SIZES[1]} sequences, PyTorch on one thread", times)


def measured() -> list[Measured]:
    """All numbers."""
    torch.set_num_threads(1)
    found = [page()]
    for name in MODELS:
        found += [*engine(name, plain=False), *engine(name, plain=True), pytorch(name)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=File, help="also write the numbers here")
    given = parser.parse_args()
    numbers = measured()
    print(*numbers, sep="\n")
    if given.json:
        values: list[dict[str, Any]] = [asdict(number) for number in numbers]
        given.json.write_text(json.dumps(values, indent=1) + "\n")
    return not all(number.kept for number in numbers)


if __name__ == "__main__":
    raise SystemExit(main())
