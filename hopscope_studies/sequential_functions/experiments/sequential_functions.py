"""Functions that generate their own sequence, learnt in context, also with random labels (Campbell et al., 2023).

After the sliding-window functions of arXiv:2312.12655 (abstract and released code; no section has these numbers), in a
variant in which no trivial prediction works: a linear function of two x, drawn for every sequence. Transformers trained
on genuine labels, or with a quarter of the labels random, are compared with least squares, ridge regression and the
posterior mean, over shares of random labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.experiments.tables import rows_of
from hopscope.experiments.work import Finished, Work
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope_studies.sequential_functions.claims import claims as claims
from hopscope_studies.sequential_functions.figure import figure as figure
from hopscope_studies.sequential_functions.tasks.self_generated import SelfGenerated
from hopscope_studies.sequential_functions.work import References, Source, by_place, model_errors, sequences

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 280, "paper": 100_000}

#: By scale: the task, the model, training, seeds, and sequences per seed.
TASK = SelfGenerated(d_x=3, length=14, noise=0.25)
MODEL = Architecture(n_layers=2, n_heads=4, d_model=64, positions="relative", init="early_layers", mlp=True)
TRAINING = Training(
    steps=1600,
    batch=64,
    lr=4e-3,
    warmup=100,
    schedule="linear",
    decay_steps=800,
    weight_decay=0.0,
    clip=1.0,
    log_every=100,
    checkpoints="1000000",
)
SCALES: dict[str, tuple[SelfGenerated, Architecture, Training, int, int]] = {
    "quick": (
        TASK.but(length=8),
        MODEL.but(d_model=16),
        TRAINING.but(steps=20, batch=16, warmup=2, decay_steps=10, log_every=10, val_size=16),
        1,
        50,
    ),
    "cpu": (TASK, MODEL, TRAINING, 5, 500),
    "paper": (
        TASK.but(d_x=5, length=16),
        MODEL.but(n_layers=12, n_heads=8, d_model=256, positions="learned"),
        TRAINING.but(steps=50_000, lr=1e-4, warmup=0, schedule="constant", decay_steps=None, clip=None),
        5,
        500,
    ),
}
#: The share of random labels that each system is trained on.
SYSTEMS = {"clean labels": 0.0, "random labels": 0.25}
#: The shares of random labels in tests.
SHARES = (0.0, 0.25, 0.5)


def runs(scale: str) -> Iterator[Config | Work]:
    """The source's sequences, references at every share, and both systems and untrained models over seeds."""
    task, model, training, seeds, size = SCALES[scale]
    for seed in range(seeds):
        yield Source(size=size, seed=seed)
        for share in SHARES:
            yield References(task.d_x, task.length, task.noise, share, size, seed)
    for share in SYSTEMS.values():
        for seed in range(seeds):
            yield Config(task.but(replaced=share), model, training.but(seed=seed))
    for seed in range(seeds):
        yield Config(task, model, training.but(steps=0, warmup=0, decay_steps=None, seed=seed))


def table(finished: list[Run | Finished], scale: str) -> DataFrame:
    """A row per model or reference, share of random labels and place: its mean squared error."""
    return rows_of(finished, lambda run: model_rows(run, SCALES[scale][-1]))


def model_rows(run: Run, size: int) -> Iterator[dict[str, Any]]:
    """A model's errors at every share, and with foreign examples; its validation loss over training."""
    seed, task = run.config.training.seed, run.task
    assert isinstance(task, SelfGenerated)
    about = {"kind": "model", "who": system_of(run.config)}
    for share in SHARES:
        batch = sequences(task.but(replaced=share), size, seed)
        yield from by_place({**about, "share": share}, model_errors(run.model, batch))
    lost = model_errors(run.model, foreign(sequences(task.but(replaced=0.0), size, seed)))
    yield {**about, "kind": "foreign", "share": 0.0, "place": task.n_positions, "error": lost[-1]}
    for row in run.rows:
        course = {"kind": "course", "share": task.replaced, "step": row["step"], "error": row["val_loss"]}
        yield {**about, **course}


def foreign(batch: Batch) -> Batch:
    """The same last windows after the examples of another sequence, which carry no information about the function."""
    draw, window = dict(batch.draw), batch.draw["x"][:, -2:]
    draw["x"] = torch.cat([batch.draw["x"][:, :-2].roll(1, 0), window], 1)
    draw["label"] = batch.draw["label"].roll(1, 0)
    return Batch(batch.task, draw)


def system_of(config: Config) -> str:
    """The name of a run in tables."""
    if not config.training.steps:
        return "untrained"
    return next(name for name, share in SYSTEMS.items() if config.task.as_dict()["replaced"] == share)
