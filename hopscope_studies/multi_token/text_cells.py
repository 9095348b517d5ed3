"""The models of `text_ahead`: small language models with several output heads, and plain ones beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope_studies.multi_token.models.multi_token import MultiTokenArchitecture
from hopscope_studies.multi_token.tasks.text_ahead import TextAhead

#: Layers and output heads by name. All models of five layers have equally many weights. Those of four and two layers
#: have as many layers up to the next character as the models with two and four heads.
KINDS = {"one": (5, 1), "two": (5, 2), "four": (5, 4), "one, 4 layers": (4, 1), "one, 2 layers": (2, 1)}
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
WIDTHS = {"quick": 16, "cpu": 64, "paper": 128}
LENGTHS = {"quick": 16, "cpu": 64, "paper": 256}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 4, "warmup": 1, "log_every": 2, "val_size": 8},
    "cpu": {"steps": 800, "lr": 3e-3, "log_every": 50},
    "paper": {"steps": 20_000, "batch": 64, "lr": 3e-3, "log_every": 500},
}


def cells(scale: str) -> Iterator[tuple[str, Config]]:
    """All runs, each with the name of its kind, seed by seed."""
    for seed in range(SEEDS[scale]):
        yield from ((kind, cell(kind, seed, scale)) for kind in KINDS)


def cell(kind: str, seed: int, scale: str) -> Config:
    """One run: the preset `shakespeare` with rotary positions and one last layer for every character ahead."""
    layers, heads = KINDS[kind]
    how = TRAININGS[scale] | {"checkpoints": str(TRAININGS[scale]["steps"]), "measures": "", "seed": seed}
    shape = MultiTokenArchitecture(
        n_layers=layers,
        n_futures=heads,
        n_heads=4,
        d_model=WIDTHS[scale],
        mlp=True,
        init="gpt2",
        positions="rotary",
    )
    return Config(TextAhead(length=LENGTHS[scale], ahead=heads), shape, recipe("shakespeare").config(**how).training)
