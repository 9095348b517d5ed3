"""Runs small enough to train, kill and damage by the hundred."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch

from hopscope import Architecture, Config, Run, Training, train
from hopscope.tasks.retrieval import Retrieval

SHAPE = Architecture(n_layers=1, d_model=8, mlp=True, positions="input")


def config(**training: Any) -> Config:
    """Two chains of one hop, some hundred parameters; a step takes about a millisecond."""
    recipe = {"steps": 12, "batch": 4, "val_size": 4, "log_every": 1, "checkpoints": "4", **training}
    return Config(Retrieval(n_hops=1, n_chains=2), SHAPE, Training(**recipe))


def trained(folder: Path, **training: Any) -> Run:
    """A finished run."""
    return train(config(**training), folder, threads=1, compile="off")


def fingerprint(run: Run) -> dict[str, str]:
    """Every bit that a resumed run must share with an undisturbed one: weights, optimizer, rows."""
    last = run.checkpoint(run.step)
    tensors = {**last.model, **last.optimizer}
    prints = {name: hashlib.sha256(t.contiguous().numpy().tobytes()).hexdigest() for name, t in tensors.items()}
    prints["metrics.jsonl"] = hashlib.sha256((run.path / "metrics.jsonl").read_bytes()).hexdigest()
    prints["report"] = str({k: v for k, v in run.report.items() if k not in ("seconds", "environment")})
    prints["kept"] = str(run.steps)
    return prints


def tensors_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
