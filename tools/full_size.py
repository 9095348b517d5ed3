"""As much of the paper at full size as a borrowed GPU's time allows, in order of priority, resumable.

    python -m tools.full_size --budget 9m --out parcel

A machine with a GPU may be there for minutes. So one command trains what matters most first, stops in time, and packs
what there is (`tools/parcels.py`) after every item, so that even a machine that is taken away leaves what was done
before. Given the same folder of runs again it goes on. Tables and circuits are made at home: they need no GPU.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import torch

from hopscope.cli import run_command
from hopscope.cli.commands.reproduce import seconds
from hopscope.cli.options import PATH, as_json, print_json
from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.core import environment
from hopscope.core.settings import BadInput
from hopscope.core.storage import clear_errors, read_json, write_json
from hopscope.execution.sweep import train_stacks
from hopscope.experiments.base import SCALES, declared
from hopscope.experiments.work import Work
from hopscope.training.stack import train_many
from hopscope.training.trainer import Trainer
from tools.parcels import pack, summary_of

#: What to train, the most wanted first: Transformer D; A, B and C; the 128 runs of figure 4. A preset, which gives the
#: same models with their facts in the other order, has a number of seeds; of an experiment its own runs are trained.
QUEUE = {"fig7": None, "transformer_d_deepest": 3, "fig5": None, "transformer_abc_deepest": 1, "fig4": None}
ITEMS = ("smoke", "times", *QUEUE)
RESERVE = 20.0  # seconds of the budget that are kept for saving and packing
TIMES = 300.0  # seconds that the step-time table may take
AGREE = 0.02  # greatest difference of an answer, of variance 1, on the device and on the CPU (ours; TF32 has 1e-3)
STEPS = 20
ROOT = Path(__file__).parents[1]

Say = Callable[[str], None]


def work_off(
    runs: Path, out: Path, *, scale: str, budget: float, items: tuple[str, ...] = ITEMS, device: str = "auto", say: Say
) -> dict[str, Any]:
    """Do the items in order until the budget is spent.

    Args:
        runs: folder of run folders; what stands there is gone on with.
        out: folder of the parcel and of `queue.json`, the account that is also returned.
        scale: of the experiments.
        budget: seconds.
        items: which, in this order.
        device: `auto`, `cpu` or `cuda`.
        say: told in words what is being done.

    Raises:
        BadInput: an item or scale is unknown.
        RuntimeError: the smoke test fails, so that nothing trained here could be trusted.
    """
    unknown = [item for item in items if item not in ITEMS]
    if unknown or scale not in SCALES:
        known = f"items must be among {', '.join(ITEMS)} and the scale among {', '.join(SCALES)}"
        raise BadInput(f"{known}; got {','.join(items)!r} and {scale!r}")
    for item in filter(QUEUE.__contains__, items):
        wanted(item, scale)  # complain before the first is trained
    deadline = time.monotonic() + max(0.0, budget - RESERVE)
    about = environment.describe(environment.choose_device(device), compiled=False)
    with clear_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        runs.mkdir(parents=True, exist_ok=True)
    account: dict[str, Any] = {"scale": scale, "items": {}, "environment": about}
    for item in items:
        if time.monotonic() >= deadline:
            account["items"][item] = {"state": "not begun: the budget is spent"}
            continue
        say(item)
        began = time.monotonic()
        found = do(item, runs, out, scale, deadline, device)
        account["items"][item] = {**found, "seconds": round(time.monotonic() - began, 1)}
        say(f"{item}: {found['state']}")
        account["left_out"] = pack(runs, out)
        write_json(out / "queue.json", account)
    write_json(out / "queue.json", account)
    return account


def do(item: str, runs: Path, out: Path, scale: str, deadline: float, device: str) -> Mapping[str, Any]:
    """One item; at least `state`, in words."""
    if item == "smoke":
        return smoke(device)
    if item == "times":
        return times(out, device, min(TIMES, deadline - time.monotonic()))
    every, experiment = wanted(item, scale), item if QUEUE[item] is None else None
    how: dict[str, Any] = {"device": device, "experiment": experiment}
    left = train_stacks(every, runs, lambda: time.monotonic() >= deadline, **how)
    return {"state": "done" if not left else f"{left} of {len(every)} runs are left", "left": left, "of": len(every)}


def wanted(item: str, scale: str) -> list[Config | Work]:
    """The runs of an item of the queue; presets are the paper's own, whatever the scale. Raises BadInput."""
    seeds = QUEUE[item]
    return declared(item, scale) if seeds is None else [recipe(item).config(seed=seed) for seed in range(seeds)]


def smoke(device: str) -> dict[str, Any]:
    """Whether the device trains, alone and stacked, and computes what the CPU does. Raises RuntimeError."""
    where = environment.choose_device(device)
    apart = {dtype: disagreement(recipe("packaged").config(dtype=dtype), where) for dtype in ("float32", "bfloat16")}
    if worst := [dtype for dtype, most in apart.items() if not most < AGREE]:
        raise RuntimeError(f"on {where} answers differ from the CPU's by {apart} after training in {', '.join(worst)}")
    with tempfile.TemporaryDirectory() as scratch:
        pair = [recipe("packaged").config(seed=seed, steps=STEPS, decay_steps=1, val_size=64) for seed in (0, 1)]
        train_many(pair, [Path(scratch) / str(seed) for seed in (0, 1)], device=device)
    return {"state": "done", "greatest_difference": apart}


def disagreement(config: Config, where: torch.device) -> float:
    """Train a few steps on a device; the greatest difference of an answer from what the CPU makes of these weights."""
    trainer = Trainer(config, where)
    for step in range(STEPS):
        loss = float(trainer.step(step))
    batch, model = config.task.sample(64, 0), trainer.model.eval()
    with torch.no_grad():
        there = model(batch.inputs.to(where)).cpu()
        here = model.cpu()(batch.inputs)
    return float((here - there).abs().max()) if math.isfinite(loss) else math.inf


def times(out: Path, device: str, seconds: float) -> dict[str, Any]:
    """The table of `make bench-many`, where the benchmarks are at hand (they are not part of the package), in time."""
    if not (ROOT / "bench" / "many.py").is_file():
        return {"state": "left out: this is no checkout, so bench/ is not here"}
    table = out / "times.json"
    command = [sys.executable, "-m", "bench.many", "--device", device, "--json", str(table.resolve()), "--rounds", "2"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=max(1.0, seconds))
    except subprocess.TimeoutExpired:
        return {"state": f"stopped: it was not done after {seconds:.0f} s"}
    if done.returncode:
        return {"state": f"failed: {done.stderr.strip().splitlines()[-1:]}"}
    return {"state": "done", "models_per_minute": read_json(table)["models_per_minute"]}


@click.command("full_size")
@click.option("--budget", default="9m", show_default=True, metavar="TIME", help="Stop, and pack, within this time.")
@click.option("--out", type=PATH, default=Path("parcel"), show_default=True, help="Parcel to.")
@click.option("--runs", type=PATH, default=Path("runs"), show_default=True, help="Run folders.")
@click.option("--items", metavar="A,B", help="Which, in this order  [default: all]")
@click.option("--scale", default="paper", show_default=True, metavar="|".join(SCALES), help="Of the experiments.")
@click.option("--device", default="auto", show_default=True, metavar="auto|cpu|cuda", help="Where to train.")
@as_json
def command(budget: str, out: Path, runs: Path, items: str | None, scale: str, device: str, as_json: bool) -> None:
    """Train the paper's models in order of priority (smoke test, step times, Transformers A–D, figure 4), resumably.

    What was done is packed into a few small files; `python -m tools.collect` merges them at home.
    """
    chosen = ITEMS if items is None else tuple(items.split(","))
    say = lambda words: click.echo(words, err=True)  # noqa: E731
    limit = seconds(budget)
    assert limit is not None
    account = work_off(runs, out, scale=scale, budget=limit, items=chosen, device=device, say=say)
    if as_json:
        print_json(account)
        return
    for item, found in account["items"].items():
        click.echo(f"{item}: {found['state']}")
    if (out / "parcel.json").is_file():
        click.echo(f"{out}: {summary_of(out)}; 'python -m tools.collect {out}' merges it into another folder of runs")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_command(command, "python -m tools.full_size", arguments)


if __name__ == "__main__":
    sys.exit(main())
