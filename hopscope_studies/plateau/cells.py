"""The cells of the study's experiments: one small model, the changes to it, and the length of training.

The small model is the paper's problem at D = 3 in its own order, deepest facts first (Musat, ICLR 2025, section 3.1),
with 5 layers of one head and the recipe of this project's presets. A run stops when it is solved, so cells that learn
are short. A run that has not learnt by the end is censored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval

#: The changes of a cell, by part of its configuration: `{"task": {...}, "model": {...}, "training": {...}}`.
Changes = Mapping[str, Mapping[str, Any]]

MEASURES = "join_attention,look_up_attention"
FEW = 3  # number of conditions at scale `quick`
SOLVED = 0.2  # training stops once every partial loss is below this (ours)

TASK = {"n_hops": 3, "order": "deepest_first", "position_base": 100.0}
MODEL = {"n_layers": 5, "mlp": False, "init": "early_layers", "positions": "input"}
TRAINING = {
    "steps": 400,
    "dtype": "bfloat16",
    "stop_below": SOLVED,
    "log_every": 10,
    "checkpoints": "400",
    "measures": MEASURES,
}
#: The depth and length of training of the paper's Transformers A, B and C (section 8.1).
PAPER: Changes = {
    "model": {"n_layers": 12, "init": "gpt2"},
    "training": {"steps": 24_000, "checkpoints": "1000", "log_every": 50},
}
TINY: Changes = {
    "model": {"d_model": 16},
    "training": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16, "checkpoints": "20"},
}


def bias(start: float) -> dict[str, Any]:
    """A learnt bias by distance that starts at `start` for the previous token in layer 0 and at 0 otherwise."""
    return {"positions": f"relative(start='L0 1:{start:g}')"}


def start_of(config: Config) -> float:
    """The inverse of `bias`; NaN for a model that has no such bias."""
    positions = config.model.as_dict().get("positions") or ""
    if not positions.startswith("relative"):
        return float("nan")
    return float(positions.partition("1:")[2].rstrip("')") or 0)


def cell(changes: Changes, seed: int, scale: str = "cpu") -> Config:
    """The small model with some changes; tiny at scale `quick`; at `paper` as deep and as long as the paper's."""
    sized = {"quick": TINY, "paper": PAPER}.get(scale, {})
    base: Changes = {"task": TASK, "model": MODEL, "training": TRAINING}
    whole = combined(base, sized, changes) if scale == "paper" else combined(base, changes, sized)
    return Config(Retrieval(**whole["task"]), Architecture(**whole["model"]), Training(**whole["training"], seed=seed))


def cells(named: Mapping[str, Changes], seeds: Iterable[int], scale: str) -> Iterator[Config]:
    """Every condition, over seeds; at `quick` the first few."""
    for seed in seeds:
        for changes in list(named.values())[: FEW if scale == "quick" else None]:
            yield cell(changes, seed, scale)


def whole(hops: int, stretch: str = "0") -> str:
    """Clamps that join the two tokens of every fact in layer 0, from the start on or during steps such as 0-200."""
    return ";".join(f"L0H0 value[{k}]->key[{k}] ideal@{stretch}" for k in range(1, hops + 1))


def taken(layers: Iterable[int], pairs: Iterable[tuple[str, str]]) -> str:
    """Clamps that remove paths within a chain from the start on, in several layers."""
    return ";".join(f"L{layer}H0 {query}->{key} off@0" for layer in layers for query, key in pairs)


def combined(*several: Changes) -> Changes:
    """Several changes in one; later changes override earlier ones."""
    parts = ("task", "model", "training")
    return {part: {name: value for one in several for name, value in one.get(part, {}).items()} for part in parts}
