"""What the explorer's page costs: its bytes, and how long its engine takes to answer, with the budgets it must keep.

    python -m bench.explorer [--browser] [--json bench/explorer.json]

The engine runs in Node (`npm ci --prefix explorer`), in WebAssembly and in plain TypeScript; beside it PyTorch on one
thread. Models are the demo's shape, four layers of one head, and twelve layers of eight heads, 128 wide. A path of the
first layer is knocked out, so that nothing of the model as it is can be used again.

A step of training in the page is held against PyTorch's on one thread, as a ratio of processor time: the very same
updates of the model that learns two hops there, without drawing batches.

With --browser pages are opened in headless Chromium: until something of the run is shown, served, from disk with one
checkpoint's weights, and with those of all 27; how long frames take while the heads of twelve layers of eight play
through 60 checkpoints; and what all processes of the browser work until two hops are learnt from random weights.
Numbers are medians of five, after one to warm up; of frames the 95th percentile of one playing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path as File
from typing import Any

import torch

from hopscope import Config, Run, Training, train
from hopscope.circuits.evaluator import Evaluator, Silenced
from hopscope.core.environment import code_version
from hopscope.explorer.building import Builder
from hopscope.explorer.page import export
from hopscope.explorer.server import Server
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval
from tests.explorer.chromium import chromium
from tests.explorer.node_engine import answers, ask, case, worded
from tests.explorer.test_learning import PRIOR, learnt

STATIC = File(__file__).parents[1] / "hopscope" / "explorer" / "static"
MODELS = {
    "demo": Architecture(n_layers=4, n_heads=1, init="early_layers", mlp=True, positions=None),
    "12 layers of 8 heads": Architecture(n_layers=12, n_heads=8, init="early_layers", mlp=True, positions=None),
}
SIZES = (8, 64, 256)
TIMES = 5
#: Bytes gzipped, milliseconds, and a ratio.
BUDGETS = {
    "page, gzipped": 75 * 1024,
    "demo, 8 sequences": 100.0,
    "demo, 64 sequences": 500.0,
    "shown, served": 300.0,
    "shown, from disk, weights of one checkpoint": 300.0,
    "shown, from disk, weights of 27 checkpoints": 800.0,
    "frames, 12 layers of 8 heads over 60 checkpoints, 95th percentile": 20.0,
    "a step of training against PyTorch's": 2.0,
    "two hops learnt in the page, of one core": 10_000.0,
}
UPDATES = 60


@dataclass(frozen=True)
class Measured:
    """One number.

    Attributes:
        what: was measured.
        median: in the unit.
        least: of the five.
        most: of the five.
        unit: bytes, ms, or times (a ratio).
        budget: the most that it may be; None: there is none.
        cpu: milliseconds of processors in it, median; where others are at work, too, they tell more.
    """

    what: str
    median: float
    least: float
    most: float
    unit: str
    budget: float | None = None
    cpu: float | None = None

    @property
    def kept(self) -> bool:
        return self.budget is None or self.median <= self.budget

    def __str__(self) -> str:
        spread = "" if self.least == self.most else f" ({self.least:.1f}–{self.most:.1f})"
        verdict = "" if self.budget is None else f"; budget {self.budget:g}: {'kept' if self.kept else 'NOT KEPT'}"
        worked = "" if self.cpu is None else f", {self.cpu:.1f} ms of CPU"
        return f"{self.what}: {self.median:.1f} {self.unit}{spread}{worked}{verdict}"


def of_times(what: str, times: list[float], cpu: list[float] | None = None) -> Measured:
    """The median of some milliseconds, without the first."""
    later, worked = times[1:], statistics.median(cpu[1:]) if cpu else None
    return Measured(what, statistics.median(later), min(later), max(later), "ms", BUDGETS.get(what), worked)


def page() -> Measured:
    """The page's script and style, as they are sent gzipped."""
    files = [STATIC / name for name in ("page.js", "page.css")]
    size = float(sum(len(gzip.compress(file.read_bytes(), 9)) for file in files))
    return Measured("page, gzipped", size, size, size, "bytes", BUDGETS["page, gzipped"])


def engine(name: str, *, plain: bool) -> list[Measured]:
    """The engine's times of one model; in plain TypeScript of eight sequences alone."""
    task = Retrieval(order="nearest_first", position_base=100.0)
    model = MODELS[name].build(task, torch.Generator().manual_seed(0))
    evaluator = Evaluator(model, task.sample(SIZES[-1], 1))
    change = Silenced(frozenset(evaluator.ground.paths[:1]))
    sizes = SIZES[:1] if plain else SIZES
    asks = [ask(worded(change), [size]) for size in sizes]
    [found] = answers(case(model, evaluator.batch, asks, plain=plain, repeat=TIMES + 1))
    words = " without SIMD" if plain else ""
    return [
        of_times(f"{name}, {size} sequences{words}", answer["times"], answer["cpu"])
        for size, answer in zip(sizes, found, strict=True)
    ]


def pytorch(name: str) -> Measured:
    """PyTorch's time for 64 sequences, on one thread, with the same change."""
    task = Retrieval(order="nearest_first", position_base=100.0)
    model = MODELS[name].build(task, torch.Generator().manual_seed(0))
    evaluator, times, cpu = Evaluator(model, task.sample(SIZES[1], 1)), [], []
    change = Silenced(frozenset(evaluator.ground.paths[:1]))
    for _ in range(TIMES + 1):
        began, used = time.perf_counter(), time.process_time()
        evaluator.accounts([change])
        times.append(1000 * (time.perf_counter() - began))
        cpu.append(1000 * (time.process_time() - used))
    return of_times(f"{name}, {SIZES[1]} sequences, PyTorch on one thread", times, cpu)


def training() -> Measured:
    """How much longer the page's processor works for an update than PyTorch's."""
    what, task = "a step of training against PyTorch's", Retrieval(position_base=100.0)
    shape = Architecture(n_layers=3, d_model=64, init="early_layers", positions=PRIOR)
    ratios = []
    for seed in range(TIMES):
        model = shape.build(task, torch.Generator().manual_seed(seed))
        batches = [task.sample(64, number) for number in range(UPDATES)]
        [ours] = learnt((model, batches))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
        used = time.process_time()
        for batch in batches:
            task.loss(model(batch.inputs, at=task.query_positions), batch.targets).backward()
            optimizer.step()
            optimizer.zero_grad()
        ratios.append(ours["cpu"] / 1000 / (time.process_time() - used))
    return Measured(what, statistics.median(ratios), min(ratios), max(ratios), "times", BUDGETS[what])


# In a browser --------------------------------------------------------------------------------------------------------

#: Notes when the view is first there, as of the next frame.
WATCH = """
new MutationObserver((_, watch) => {
  if (!document.querySelector("main#view")) return;
  watch.disconnect();
  requestAnimationFrame(() => { window.shownAt = performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""
#: Milliseconds between frames, for so long.
FRAMES = """
(lasting) => new Promise((done) => {
  const found = [], began = performance.now();
  let last = began;
  const each = (now) => {
    found.push(now - last);
    last = now;
    if (now - began < lasting) requestAnimationFrame(each); else done(found.slice(1));
  };
  requestAnimationFrame(each);
})
"""


def young(folder: File, shape: Architecture, checkpoints: int) -> Run:
    """A run of so many steps, each of them kept."""
    recipe = Training(steps=checkpoints - 1, batch=4, val_size=4, log_every=1, checkpoints="1")
    return train(
        Config(Retrieval(order="nearest_first", position_base=100.0), shape, recipe), folder, threads=1, compile="off"
    )


def shown(browser: Any, what: str, address: str) -> Measured:
    """Until something of a run is shown, in a fresh browser each time."""
    times = []
    for _ in range(TIMES + 1):
        context = browser.new_context()
        context.add_init_script(WATCH)
        opened = context.new_page()
        opened.goto(address)
        opened.locator("main#view").wait_for()
        opened.wait_for_timeout(100)
        times.append(float(opened.evaluate("window.shownAt")))
        context.close()
    return of_times(what, times)


def frames(browser: Any, address: str) -> Measured:
    """The 95th percentile of frames while the heads play through training."""
    what = "frames, 12 layers of 8 heads over 60 checkpoints, 95th percentile"
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.goto(f"{address}#view=heads&step=0")
    opened.locator("main#view canvas").first.wait_for()
    opened.get_by_role("button", name="Play through training").click()
    times = sorted(opened.evaluate(FRAMES, 8000))
    context.close()
    return Measured(what, times[int(0.95 * len(times))], times[0], times[-1], "ms", BUDGETS[what])


def learning(browser: Any, address: str) -> Measured:
    """What all of the browser's processes work until two hops are learnt."""
    what, times = "two hops learnt in the page, of one core", []
    for _ in range(TIMES):
        context = browser.new_context()
        opened = context.new_page()
        opened.goto(f"{address}#view=train")
        opened.locator("[data-settled=yes]").wait_for()
        before = worked(browser)
        opened.locator("[data-train]").click()
        opened.locator(".outcome", has_text="Learnt").wait_for(timeout=300_000)
        times.append(worked(browser) - before)
        context.close()
    return Measured(what, statistics.median(times), min(times), max(times), "ms", BUDGETS[what])


def worked(browser: Any) -> float:
    """Milliseconds of processors that a browser's processes took so far."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return 1000 * sum(float(one["cpuTime"]) for one in found)


def in_browser() -> list[Measured]:
    """What takes a page and a browser."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        place = File(folder)
        os.environ["HOPSCOPE_CACHE"] = f"{folder}/cache"
        demo = young(place / "demo", MODELS["demo"], 27).path
        many = young(
            place / "many",
            Architecture(n_layers=12, n_heads=8, d_model=16, init="early_layers", mlp=True, positions=None),
            60,
        ).path
        for which, file in (("last", "one"), ("all", "all")):
            export(Builder([demo], which=which), place / f"{file}.html")
        export(Builder([many]), place / "many.html")
        builder = Builder([demo])
        builder.build()
        server = Server(builder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = [
            shown(browser, "shown, served", server.address),
            shown(browser, "shown, from disk, weights of one checkpoint", f"file://{place}/one.html"),
            shown(browser, "shown, from disk, weights of 27 checkpoints", f"file://{place}/all.html"),
            frames(browser, f"file://{place}/many.html"),
            learning(browser, f"file://{place}/one.html"),
        ]
        server.shutdown()
    return found


def measured(browser: bool) -> list[Measured]:
    """All numbers."""
    torch.set_num_threads(1)
    found = [page()]
    for name in MODELS:
        found += [*engine(name, plain=False), *engine(name, plain=True), pytorch(name)]
    found.append(training())
    return [*found, *(in_browser() if browser else ())]


def machine() -> dict[str, Any]:
    """On what it is measured, and how busy that was before."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    lines = File("/proc/cpuinfo").read_text().splitlines() if File("/proc/cpuinfo").is_file() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "hopscope": code_version(),
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "node": version("node"),
        "browser": version(browser) if browser else "none",
    }


def version(command: str) -> str:
    """What a command says of its version."""
    return subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=File, help="also write the numbers here")
    parser.add_argument("--browser", action="store_true", help="also what takes a page and a browser")
    given = parser.parse_args()
    about = machine()
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    numbers = measured(given.browser)
    print(*numbers, sep="\n")
    if given.json:
        values = {"machine": about, "numbers": [asdict(number) for number in numbers]}
        given.json.write_text(json.dumps(values, indent=1) + "\n")
    return not all(number.kept for number in numbers)


if __name__ == "__main__":
    raise SystemExit(main())
