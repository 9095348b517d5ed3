"""Models per minute: one after the other, stacked, and over parallel workers, against a plain PyTorch loop.

    python -m bench.many [--device cuda]                                  (`make bench-many`)

All train the same models: the demo's (4 layers of one head, d_model 128, D = 2, batch 128) and a small one (2 layers,
d_model 32, batch 32), eight members that differ by their seed. Contenders take turns, round after round, in one run;
a contender's time is that of a step of every member, and models per minute are counted at 1,000 steps a model. Each
has warmed up, and compiled where it compiles. The GEMM peak is measured in every round. Ratios are medians of the
ratios within a round, to the plain loop.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from bench.contenders.gemm import peak
from bench.contenders.pytorch import GPT
from bench.work import LEARNING_RATE, SIZES as STEPS_SIZES, WEIGHT_DECAY, Work
from hopscope.configuration.config import Config
from hopscope.core.environment import code_version
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval
from hopscope.training.stack import Stack
from hopscope.training.trainer import Trainer

SIZES = {
    "demo": STEPS_SIZES["demo"],
    "small": Work(
        "small",
        Retrieval(n_hops=2, order="nearest_first", position_base=100.0),
        Architecture(n_layers=2, n_heads=1, d_model=32, init="early_layers", mlp=True, positions=None),
        batch=32,
    ),
}
MEMBERS = 8
STEPS_A_MODEL = 1000
WARM = 3

Step = Callable[[int], None]


def configs(work: Work, dtype: str) -> list[Config]:
    config = work.config(dtype)
    return [Config(config.task, config.model, config.training.but(seed=seed)) for seed in range(MEMBERS)]


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def one_at_a_time(work: Work, dtype: str, device: torch.device) -> Step:
    """hopscope's own step, member after member, all threads for each."""
    trainers = [Trainer(config, device) for config in configs(work, dtype)]
    return lambda step: [trainer.step(step).item() for trainer in trainers] and None


def stacked(work: Work, dtype: str, device: torch.device) -> Step:
    """All members as one program; compiled on a GPU, as `train_many` does."""
    stack = Stack([Trainer(config, device) for config in configs(work, dtype)], compiled=device.type == "cuda")
    return lambda step: [loss.item() for loss in stack.step(step)] and None


def plain_loop(work: Work, dtype: str, device: torch.device) -> Step:
    """The same model in plain PyTorch (bench/contenders/pytorch.py), member after member."""
    loops = [plain_member(work, dtype, device, seed) for seed in range(MEMBERS)]
    return lambda step: [loop(step) for loop in loops] and None


def plain_member(work: Work, dtype: str, device: torch.device, seed: int) -> Callable[[int], float]:
    torch.manual_seed(seed)
    model = GPT(work).to(device)
    fused = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)

    def step(index: int) -> float:
        inputs, targets = (tensor.to(device) for tensor in work.draw(index))
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            outputs = model(inputs)
        loss = F.mse_loss(outputs.float(), targets)
        fused.zero_grad()
        loss.backward()
        fused.step()
        return loss.item()

    return step


class Workers:
    """Single-threaded processes that share the members, as `hopscope sweep` has them."""

    def __init__(self, work: Work, dtype: str, device: torch.device, size: int):
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for index in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=labour, args=(theirs, work.name, dtype, str(device), index, size), daemon=True
            )
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)
        for pipe in self.pipes:
            pipe.recv()

    def __call__(self, step: int) -> None:
        for pipe in self.pipes:
            pipe.send(step)
        for pipe in self.pipes:
            pipe.recv()


def labour(pipe: Connection, size: str, dtype: str, device: str, index: int, of: int) -> None:
    """One worker: every `of`-th member."""
    torch.set_num_threads(1)
    trainers = [Trainer(config, torch.device(device)) for config in configs(SIZES[size], dtype)[index::of]]
    pipe.send("ready")
    while True:
        try:
            step = pipe.recv()
        except EOFError:  # the measuring is over
            return
        for trainer in trainers:
            trainer.step(step).item()
        pipe.send(step)


def measure(work: Work, dtype: str, device: torch.device, rounds: int, seconds: float) -> dict[str, Any]:
    """Steps of all members per second, by contender and round, and the peak."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    contenders: dict[str, Step] = {
        "plain PyTorch loop": plain_loop(work, dtype, device),
        "one at a time": one_at_a_time(work, dtype, device),
        "stacked": stacked(work, dtype, device),
        f"{cores} workers": Workers(work, dtype, device, cores),
    }
    done = dict.fromkeys(contenders, 0)
    for name, step in contenders.items():
        for _ in range(WARM):
            step(done[name])
            done[name] += 1
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    peaks = []
    for _ in range(rounds):
        peaks.append(peak(getattr(torch, dtype)) if device.type == "cpu" else 0.0)  # its yardstick is the CPU's
        for name, step in contenders.items():
            wait_for(device)
            began, first = time.perf_counter(), done[name]
            while time.perf_counter() - began < seconds:
                step(done[name])
                done[name] += 1
            wait_for(device)
            rates[name].append((done[name] - first) / (time.perf_counter() - began))
    return {"rates": rates, "peaks": peaks, "flops": work.flops * MEMBERS}


def render(found: dict[str, Any]) -> str:
    """A table in Markdown."""
    lines = ["| | models/minute | min–max | of the peak | ratio |", "|---|---|---|---|---|"]
    base = found["rates"]["plain PyTorch loop"]
    for name, rates in found["rates"].items():
        models = [60 * MEMBERS * rate / STEPS_A_MODEL for rate in rates]
        spread = f"{statistics.median(models):.2f} | {min(models):.2f}–{max(models):.2f}"
        shares = [rate * found["flops"] / top for rate, top in zip(rates, found["peaks"], strict=True) if top]
        share = f"{statistics.median(shares):.0%}" if shares else "not measured"
        ratio = statistics.median(rate / other for rate, other in zip(rates, base, strict=True))
        lines.append(f"| {name} | {spread} | {share} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each contender in a round")
    parser.add_argument("--size", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--json", type=Path, help="also write everything here")
    options = parser.parse_args()
    device = torch.device(
        options.device if options.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    )
    about = {
        "code": code_version(),
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
        "machine": platform.machine(),
    }
    print(f"{MEMBERS} members, {options.dtype}, {device}, {options.rounds} rounds, load before {about['load']:.2f}")
    report: dict[str, Any] = {**about, "device": str(device), "dtype": options.dtype, "models_per_minute": {}}
    for size in SIZES if options.size == "all" else [options.size]:
        found = measure(SIZES[size], options.dtype, device, options.rounds, options.seconds)
        print(f"\n{SIZES[size]}\n{render(found)}", flush=True)
        report[size] = found
        report["models_per_minute"][size] = {
            name: round(60 * MEMBERS * statistics.median(rates) / STEPS_A_MODEL, 3)
            for name, rates in found["rates"].items()
        }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
