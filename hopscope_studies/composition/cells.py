"""The models of `composition`, by depth, pool and seed; sizes by scale."""

from __future__ import annotations

from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.repeated_segment import RepeatedSegment

#: The task, the width and the training by scale. Those of `paper` are from the authors' code.
TASKS: dict[str, dict[str, Any]] = {
    "quick": {"length": 20, "d_vocab": 16, "shortest": 4, "longest": 6},
    "cpu": {},
    "paper": {"length": 64, "shortest": 10, "longest": 19, "skipped": 4, "asked": "all"},
}
WIDTHS = {"quick": 16, "cpu": 32, "paper": 64}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 16, "lr": 3e-3, "log_every": 10, "val_size": 32, "checkpoints": "10"},
    "cpu": {"steps": 2000, "batch": 64, "lr": 3e-3, "log_every": 50, "val_size": 256, "checkpoints": "50"},
    "paper": {"steps": 20_000, "batch": 50, "lr": 1e-3, "log_every": 100, "val_size": 512, "checkpoints": "200"},
}
#: What every scale shares: AdamW as in the authors' code.
ADAMW: dict[str, Any] = {"weight_decay": 5e-4, "beta2": 0.98}
#: Length of the segments out of distribution, where tokens are equally frequent.
LONGER = {"quick": 8, "cpu": 12, "paper": 25}


def cell(n_layers: int, seed: int, scale: str = "cpu", pool: int = 0) -> Config:
    """The run of one model: attention only, one head per layer, rotary positions."""
    task = RepeatedSegment(**TASKS[scale]).but(pool=pool)
    shape = Architecture(n_layers=n_layers, d_model=WIDTHS[scale], mlp=False, positions="rotary", init="early_layers")
    return Config(task, shape, Training(**TRAININGS[scale], **ADAMW, seed=seed))


def elsewhere(task: RepeatedSegment, scale: str) -> RepeatedSegment:
    """The out-of-distribution task: uniform frequencies, and longer segments that come from no pool."""
    longer = LONGER[scale]
    return task.but(frequencies="uniform", shortest=longer, longest=longer, pool=0, asked="copy")
