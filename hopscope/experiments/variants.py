"""What experiments that change one setting share: the packaged run's recipe with a change.

The packaged run's model (4 layers of one head, D = 2, nearest first) is learnt in a minute, so changes are made to it.
Runs without a change are `packaged_seeds`, which many experiments share. None of this is in the paper, whose models
differ in several settings at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.models.transformer import Architecture

SEEDS = {"quick": 1, "cpu": 2, "paper": 8}
#: Default shapes before version 0.2, which older experiments keep.
EARLIER = Architecture(init="early_layers", mlp=True, positions="input")
TINY_MODEL = {"n_layers": 2, "d_model": 16}
TINY_TRAINING = {"steps": 10, "batch": 8, "log_every": 5, "val_size": 16, "checkpoints": "10", "decay_steps": 5}

Changes = Mapping[str, Any]


def packaged_seeds() -> Iterator[Config]:
    """The packaged run's recipe over eight seeds: the baseline of every change."""
    return (recipe("packaged").config(seed=seed) for seed in range(SEEDS["paper"]))


def variants(
    scale: str,
    *,
    task: Changes | None = None,
    model: Changes | None = None,
    training: Changes | None = None,
    seeds: Mapping[str, int] = SEEDS,
) -> Iterator[Config]:
    """The packaged run's recipe with some settings changed, over seeds; tiny in tests. Unchanged: `packaged_seeds`."""
    tiny, small = (TINY_TRAINING, TINY_MODEL) if scale == "quick" else ({}, {})
    base = recipe("packaged").config(**{**(training or {}), **tiny})
    config = Config(base.task.but(**task or {}), base.model.but(**{**small, **(model or {})}), base.training)
    if not config.difference(recipe("packaged").config()):
        yield from packaged_seeds()
        return
    for seed in range(seeds[scale]):
        yield Config(config.task, config.model, config.training.but(seed=seed))


def seeds_of(table: DataFrame) -> tuple[int, ...]:
    """The seeds of all rows, each once."""
    return tuple(sorted(table.seed.unique().tolist()))
