"""The cells of the study's experiments: one small model, what is changed in it, and how long it is trained.

The small model is the paper's problem at D = 3 in its own order, deepest facts first (Musat, ICLR 2025, section 3.1),
in 5 layers of one head, with the recipe of this project's presets. A run stops when it is solved, so that cells that
learn are short; one that has not learnt by the end is censored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.retrieval import Retrieval

#: What a cell changes, by part of its configuration: `{"task": {...}, "model": {...}, "training": {...}}`.
Changes = Mapping[str, Mapping[str, Any]]

MEASURES = "join_attention,look_up_attention"
FEW = 3  # conditions that scale `quick` has
SOLVED = 0.2  # every partial loss; training stops below it (ours)

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
#: What the paper's Transformers A, B and C have more (section 8.1).
PAPER: Changes = {
    "model": {"n_layers": 12, "init": "gpt2"},
    "training": {"steps": 24_000, "checkpoints": "1000", "log_every": 50},
}
TINY: Changes = {
    "model": {"d_model": 16},
    "training": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16, "checkpoints": "20"},
}


def bias(start: float) -> dict[str, Any]:
    """A learnt bias by distance, which in layer 0 starts at `start` for the token before, at 0 elsewhere."""
    return {"positions": f"relative(start='L0 1:{start:g}')"}


def start_of(config: Config) -> float:
    """The inverse of `bias`; NaN for a model that has no such bias."""
    positions = config.model.as_dict().get("positions") or ""
    if not positions.startswith("relative"):
        return float("nan")
    return float(positions.partition("1:")[2].rstrip("')") or 0)


def cell(changes: Changes, seed: int, scale: str = "cpu") -> Config:
    """The small model, changed; at scale `quick`, which tests plumbing, tiny; at `paper` as deep and long as theirs."""
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
    """Clamps that join the two tokens of every fact in layer 0, from the start on or for a stretch such as 0-200."""
    return ";".join(f"L0H0 value[{k}]->key[{k}] ideal@{stretch}" for k in range(1, hops + 1))


def taken(layers: Iterable[int], pairs: Iterable[tuple[str, str]]) -> str:
    """Clamps that take paths of the same chain away from the start, in every one of some layers."""
    return ";".join(f"L{layer}H0 {query}->{key} off@0" for layer in layers for query, key in pairs)


def combined(*several: Changes) -> Changes:
    """Some changes, the later ones over the earlier."""
    parts = ("task", "model", "training")
    return {part: {name: value for one in several for name, value in one.get(part, {}).items()} for part in parts}
