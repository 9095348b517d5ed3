"""The models of `h_minus_one_heads`: one shape trained in four ways, on a finite training set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope_studies.h_minus_one_heads.tasks.two_kinds import TwoKinds

#: Attention of each way to train. `dropout` is the mixture with even gates, trained in turn.
TRAINED = {
    "plain": "softmax",
    "dropout": "h_minus_one(gate='even', trained='in_turn')",
    "jointly": "h_minus_one",
    "in turn": "h_minus_one(trained='in_turn')",
}
GATED = ("jointly", "in turn")
TASKS: dict[str, dict[str, Any]] = {
    "quick": {"length": 10, "n_symbols": 8, "n_tokens": 4},
    "cpu": {},
    "paper": {"length": 128, "n_symbols": 256, "n_tokens": 32},
}
SIZES: dict[str, dict[str, Any]] = {
    "quick": {"n_layers": 2, "n_heads": 4, "d_model": 16},
    "cpu": {"n_layers": 2, "n_heads": 4, "d_model": 64},
    "paper": {"n_layers": 6, "n_heads": 8, "d_model": 512},
}
#: One head begins as a previous-token head; without one a model of two layers waits for it (study `plateau`).
PRIOR = "relative(start='L0H0 1:4')"
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 8, "examples": 16, "log_every": 10, "val_size": 16},
    "cpu": {"steps": 1500, "batch": 64, "examples": 4096, "lr": 3e-3, "dtype": "bfloat16"}
    | {"log_every": 50, "val_size": 256},
    "paper": {"steps": 100_000, "batch": 64, "examples": 1 << 18, "lr": 5e-4, "warmup": 4000, "log_every": 500},
}
HIDDEN = 16  # of the gate's MLP, the variant's default
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}


def wider(size: dict[str, int]) -> int:
    """The MLP's hidden width in models without gates; it is larger by the number of gate parameters, rounded up."""
    d, h = size["d_model"], size["n_heads"]
    of_gate = d * HIDDEN + HIDDEN + HIDDEN * h + h
    return 4 * d + -(-of_gate // (2 * d + 1))


def cell(trained: str, seed: int, scale: str = "cpu") -> Config:
    """The run of one model."""
    size, sized = SIZES[scale], TRAININGS[scale]
    shape = Architecture(
        **size,
        d_mlp=None if trained in GATED else wider(size),
        positions=PRIOR,
        attention=TRAINED[trained],
        init="early_layers",
        mlp=True,
    )
    training = Training(**sized, checkpoints=str(sized["steps"]), weight_decay=0.01, seed=seed)
    return Config(TwoKinds(**TASKS[scale]), shape, training)


def cells(scale: str) -> Iterator[tuple[str, Config]]:
    """All runs, each with the way in which it is trained."""
    for trained in TRAINED:
        for seed in range(SEEDS[scale]):
            yield trained, cell(trained, seed, scale)
