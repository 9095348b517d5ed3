"""The models of `non_target_heads`, by condition and seed; sizes by scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope_studies.non_target_heads.tasks.tagged_hops import TaggedHops

#: A head for the previous token is there from the start; without it models wait (study *plateau*).
PRIOR = "relative(start='L0 1:4')"


@dataclass(frozen=True)
class Condition:
    """The sequences that both heads are trained on.

    Attributes:
        words: the name in figures.
        share: the share of sequences of tag `one`.
        related: whether both kinds of sequences have the same tokens.
        steps: the most steps at scale `cpu`.
    """

    words: str
    share: float
    related: bool = True
    ordered: bool = False
    steps: int = 1500


CONDITIONS = {
    "together": Condition("both heads, same tokens", 0.5),
    "alone": Condition("head end alone", 0.0),
    "unrelated": Condition("both heads, other tokens", 0.15, related=False, steps=2000),
    "ordered": Condition("both heads, first pairs first", 0.5, ordered=True),
}
TASKS: dict[str, dict[str, Any]] = {
    "quick": {"n_chains": 2, "n_symbols": 6},
    "cpu": {},
    "paper": {"n_chains": 5, "n_symbols": 30},
}
WIDTHS = {"quick": 16, "cpu": 64, "paper": 256}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16},
    "cpu": {"batch": 128, "lr": 1e-2, "optimizer": "muon", "dtype": "bfloat16", "log_every": 25, "val_size": 512},
    "paper": {"steps": 50_000, "batch": 512, "lr": 1e-3, "log_every": 250},
}
STOP = {"quick": 1.0, "cpu": 0.97, "paper": 0.999}  # accuracy at which training ends
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
MORE = {"quick": 0, "cpu": 5, "paper": 5}  # further seeds of `together`, half of whose runs learn only one task


def cell(name: str, seed: int, scale: str) -> Config:
    """Three layers of one head, attention only; the unembedding holds both heads."""
    condition = CONDITIONS[name]
    task = TaggedHops(**TASKS[scale], share=condition.share, related=condition.related, ordered=condition.ordered)
    shape = Architecture(n_layers=3, d_model=WIDTHS[scale], mlp=False, positions=PRIOR, init="early_layers")
    values = ({"steps": condition.steps} if scale == "cpu" else {}) | TRAININGS[scale]
    recipe = Training(
        **values, stop_accuracy=STOP[scale], checkpoints=str(values["steps"]), weight_decay=0.01, seed=seed
    )
    return Config(task, shape, recipe)


def cells(scale: str) -> Iterator[tuple[str, Config]]:
    """Every model with the name of its condition."""
    for seed in range(SEEDS[scale]):
        for name in CONDITIONS:
            yield name, cell(name, seed, scale)
    for seed in range(SEEDS[scale], SEEDS[scale] + MORE[scale]):
        yield "together", cell("together", seed, scale)
