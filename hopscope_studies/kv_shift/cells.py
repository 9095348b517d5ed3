"""The models of `kv_shift`, by part, attention, depth and seed; sizes by scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.base import Task
from hopscope.tasks.fixed_n_gram import FixedNGram
from hopscope.tasks.hop_k import HopK
from hopscope.tasks.last_successor import LastSuccessor
from hopscope.tasks.retrieval import Retrieval

#: Attention of each name: plain, and KV shifting from either start.
ATTENTION = {"plain": "softmax", "kv": "kv_shift", "kv drawn": "kv_shift(start='drawn')"}
#: The prior of plain models on chains; without it they wait for a head on the token before.
PRIOR = "relative(start='L0 1:4')"
LETTERS: dict[str, dict[str, Any]] = {
    "quick": {"length": 12, "n_hops": 2},
    "cpu": {"length": 24, "n_hops": 4},
    "paper": {"length": 100, "n_hops": 16},
}
HOPS = {"quick": 2, "cpu": 3, "paper": 8}

INDUCTION: dict[str, dict[str, Any]] = {
    "quick": {"length": 16, "d_vocab": 16},
    "cpu": {},
    "paper": {"length": 512, "d_vocab": 8000},
}
WIDTHS = {"quick": 16, "cpu": 64, "paper": 256}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16},
    "cpu": {"batch": 64, "lr": 3e-3, "val_size": 128},
    "paper": {"steps": 20_000, "batch": 64, "lr": 2e-4, "warmup": 1000, "log_every": 100},
}
#: At `cpu`, the training steps, logging interval and stopping rule of each part.
PARTS: dict[str, dict[str, Any]] = {
    "induction": {"steps": 1200, "log_every": 20, "stop_accuracy": 0.99},
    "n-gram": {"steps": 400, "log_every": 20},
    "letters": {"steps": 800, "log_every": 20},
    "chains": {"steps": 700, "log_every": 25, "dtype": "bfloat16", "lr": 1e-3, "stop_below": 0.15},
}
WEIGHT_DECAY = 0.01
#: Steps of other cells of induction: those that learn late, or not at all.
LATE = {("kv drawn", 1): 600, ("plain", 1): 300, ("plain", 2): 300}


def training(part: str, seed: int, scale: str, **more: Any) -> Training:
    """Training settings with AdamW; only the first and the last weights are kept."""
    sized = TRAININGS[scale] | (PARTS[part] if scale == "cpu" else {}) | more
    return Training(**sized, checkpoints=str(sized["steps"]), weight_decay=WEIGHT_DECAY, seed=seed)


#: By part, then by attention and layers: how many seeds at `cpu`; 8 where speeds are compared.
CELLS: dict[str, dict[tuple[str, int], int]] = {
    "induction": {("kv", 1): 8, ("kv drawn", 1): 5, ("plain", 1): 5, ("plain", 2): 8},
    "n-gram": {("kv", 1): 5, ("plain", 1): 5},
    "letters": {("kv", 1): 5, ("kv", 2): 5, ("plain", 2): 5},
    "chains": {("kv", 1): 5, ("kv", 2): 5, ("plain", 2): 5},
}


def cells(scale: str) -> Iterator[tuple[tuple[str, str, int], Config]]:
    """All runs, each with its part, attention and layers; at `quick` two cells of each part, with one seed."""
    for part, shapes in CELLS.items():
        for (attention, n_layers), seeds in list(shapes.items())[: 2 if scale == "quick" else None]:
            for seed in range(1 if scale == "quick" else seeds):
                yield (part, attention, n_layers), cell(part, attention, n_layers, seed, scale)


def cell(part: str, attention: str, n_layers: int, seed: int, scale: str = "cpu") -> Config:
    """The run of one cell: attention only, one head per layer, rotary positions, unless its part says otherwise."""
    tasks: dict[str, Callable[[], Task]] = {
        "induction": lambda: LastSuccessor(**INDUCTION[scale]),
        "n-gram": FixedNGram,
        "letters": lambda: HopK(**LETTERS[scale]),
        "chains": lambda: Retrieval(n_hops=HOPS[scale], order="deepest_first", position_base=100.0),
    }
    shape = Architecture(
        n_layers=n_layers,
        n_heads=2 if part in ("letters", "chains") else 1,
        d_model=WIDTHS[scale],
        attention=ATTENTION[attention],
        mlp=part == "n-gram",
        positions="rotary" if part != "chains" else PRIOR if attention == "plain" else None,
        init="early_layers",
    )
    late = LATE.get((attention, n_layers)) if (part, scale) == ("induction", "cpu") else None
    return Config(tasks[part](), shape, training(part, seed, scale, **({"steps": late} if late else {})))
