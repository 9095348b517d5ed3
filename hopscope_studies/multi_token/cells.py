"""The models of `multi_token` by problem, outputs asked, and seed; sizes by scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.some_hops import SomeHops
from hopscope_studies.multi_token.models.multi_token import MultiTokenArchitecture
from hopscope_studies.multi_token.tasks.names_in_text import NamesInText

#: How far ahead tokens are predicted. The last two are controls for a second head as such.
TOKENS = {"near": "1", "far": "2", "both": "1,2", "four": "1,2,3,4", "before": "1,-1", "same": "1,0"}
#: The first and the last hop that are asked.
HOPS = {"near": (1, 1), "far": (2, 2), "both": (1, 2)}
#: Numbers of name tokens, and shares of stray ones, that were tried with one head; one pair was then fixed.
DIAL = ((16, 0.2), (32, 0.2), (64, 0.2), (32, 0.0))
CHOSEN = (32, 0.2)

TASKS: dict[str, dict[str, Any]] = {
    "quick": {"n_words": 6, "n_names": 6, "length": 12},
    "cpu": {},
    "paper": {"n_words": 4096, "n_names": 512, "length": 512},
}
SHAPES: dict[str, dict[str, Any]] = {
    "quick": {"d_model": 16},
    "cpu": {"d_model": 64},
    "paper": {"d_model": 256, "n_heads": 8},
}
TRUNK = {"quick": 1, "cpu": 1, "paper": 5}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16},
    "cpu": {"batch": 32, "lr": 3e-3, "val_size": 128, "log_every": 20},
    "paper": {"steps": 50_000, "batch": 256, "lr": 1e-3, "warmup": 2000, "log_every": 250},
}
WEIGHT_DECAY = 0.01
#: Steps of training, which ends earlier if names are known.
TOKEN_STEPS, KNOWN = 1000, 0.9
#: The prior that joins the facts of a chain from the start; without it models wait (study *plateau*).
PRIOR = "relative(start='L0 1:4')"
HOP_TRAINING: dict[str, Any] = {"steps": 400, "batch": 128, "lr": 1e-3, "dtype": "bfloat16", "stop_below": 0.15}


def tokens(asked: str, seed: int, scale: str, dial: tuple[int, float] = CHOSEN) -> Config:
    """A run on texts: a trunk, and a head of one layer for every predicted token."""
    names, stray = dial
    task = NamesInText(**{"n_names": names, "stray": stray, **TASKS[scale]}, asked=TOKENS[asked])
    n = len(task.offsets)
    shape = MultiTokenArchitecture(
        n_layers=TRUNK[scale] + n, n_futures=n, positions="rotary", init="early_layers", mlp=True, **SHAPES[scale]
    )
    own = {"steps": TOKEN_STEPS, "stop_accuracy": KNOWN} if scale == "cpu" else {"stop_accuracy": 1.0}
    own |= {"log_every": 40, "steps": 800} if scale == "cpu" and asked != "near" else {}
    return Config(task, shape, training(TRAININGS[scale] | own, seed, "name_accuracy,name_attention"))


def hops(asked: str, seed: int, scale: str) -> Config:
    """A run on chains: three layers of one head, attention only, and a linear read-out for every asked hop."""
    first, last = HOPS[asked]
    task = SomeHops(n_hops=2, order="deepest_first", position_base=100.0, first=first, last=last)
    shape = Architecture(
        n_layers=3, d_model=16 if scale == "quick" else 64, mlp=False, positions=PRIOR, init="early_layers"
    )
    own = HOP_TRAINING if scale == "cpu" else {}
    return Config(task, shape, training(TRAININGS[scale] | own | {"log_every": 10}, seed))


def training(values: dict[str, Any], seed: int, measures: str = "") -> Training:
    """Training settings with AdamW; only the first and the last weights are kept."""
    kept = str(values["steps"])
    return Training(**values, checkpoints=kept, weight_decay=WEIGHT_DECAY, measures=measures, seed=seed)


SEEDS = {"quick": 1, "cpu": 8, "paper": 8}


def cells(scale: str) -> Iterator[tuple[tuple[str, str, str], Config]]:
    """Every model with its name: problem, outputs asked, and a note."""
    for seed in range(SEEDS[scale]):
        for asked in TOKENS:
            yield ("tokens", asked, ""), tokens(asked, seed, scale)
        for asked in HOPS:
            yield ("hops", asked, ""), hops(asked, seed, scale)
    for dial in DIAL if scale == "cpu" else ():
        if dial != CHOSEN:
            yield ("dial", "near", f"{dial[0]} names, {dial[1]:g} stray"), tokens("near", 0, scale, dial)
