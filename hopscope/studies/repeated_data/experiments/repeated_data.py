"""Half of the sequences hold segments of a pool: loss and copying by the number of repetitions.

A toy analogue of Hernandez et al. (2022, arXiv:2205.10487), whose abstract alone was read: two layers of attention
learn to continue a repeated segment; in half of the sequences it is one of P, so that each is seen (steps · batch / 2P)
times. Compared with no repetition at as many sequences, and with the fresh half of the sequences alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.measures.base import observe
from hopscope.measures.lag_attention import by_lag
from hopscope.models.base import Model
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.studies.repeated_data.claims import claims
from hopscope.tasks.base import Batch
from hopscope.tasks.repeated_segment import RepeatedSegment

__all__ = ["CLAIMS", "SECONDS", "claims", "figure", "runs", "table"]

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 5, "cpu": 250, "paper": 40_000}
CLAIMS = (
    "middle_repetition_is_worst",
    "induction_is_hurt",
    "repetition_hurts",
    "worse_than_leaving_it_out",
    "the_pool_is_learnt",
    "without_repetition_copies",
)

SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
POOLS = {"quick": (2, 4, 8), "cpu": (8, 64, 512, 4096), "paper": (8, 32, 128, 512, 2048, 8192, 32768)}
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
ADAMW: dict[str, Any] = {"weight_decay": 5e-4, "beta2": 0.98}
SEQUENCES = {"quick": 32, "cpu": 512, "paper": 2000}


def runs(scale: str) -> Iterator[Config]:
    """Without repetition, with the fresh half alone, and with each pool."""
    for seed in range(SEEDS[scale]):
        yield cell(seed, scale)
        yield cell(seed, scale, half=True)
        yield from (cell(seed, scale, pool) for pool in POOLS[scale])


def cell(seed: int, scale: str, pool: int = 0, half: bool = False) -> Config:
    """One model; the fresh half alone is half of each batch. Without either it is the recipe of `composition`."""
    how = dict(TRAININGS[scale], **({"batch": TRAININGS[scale]["batch"] // 2} if half else {}))
    task = RepeatedSegment(**TASKS[scale]).but(pool=pool, pool_share=0.5 if pool else 1.0)
    shape = Architecture(n_layers=2, d_model=WIDTHS[scale], mlp=False, positions="rotary")
    return Config(task, shape, Training(**how, **ADAMW, seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, at its end: run, version, seed, pool (0: none), half (the fresh half alone), repetitions, loss
    (nats) and error on fresh segments, known_error and fresh_known_error (in the first copy, of the pool's segments and
    of fresh ones), induction (attention of the last layer's best head at its best lag), lag.
    """
    rows = []
    for run in runs:
        task, training = run.config.task, run.config.training
        assert isinstance(task, RepeatedSegment)
        model, n = run.at(run.steps[-1]), SEQUENCES[scale]
        fresh = task.but(pool=0, pool_share=1.0, asked="copy").sample(n, generator(0, "fresh"))
        pooled = task.but(pool_share=1.0, asked="copy").sample(n, generator(0, "pooled"))
        rows.append(
            {
                "run": run.config.identity,
                "version": run.sessions[-1]["environment"]["code"],
                "seed": training.seed,
                "pool": task.pool,
                "half": training.batch < TRAININGS[scale]["batch"],
                "repetitions": training.steps * training.batch / 2 / task.pool if task.pool else 1.0,
                **copying(model, fresh),
                "known_error": known_error(model, pooled),
                "fresh_known_error": known_error(model, fresh),
            }
        )
    return DataFrame(rows)


def copying(model: Model, fresh: Batch) -> dict[str, float]:
    """Loss and error on fresh segments, and what the last layer attends to at its best lag."""
    seen = observe(model, fresh)
    wanted, last = fresh.roles.pairs("query", "key[1]", "same"), model.architecture.n_layers - 1
    curves = [by_lag(pattern, wanted) for pattern in seen.cache["pattern", last].unbind(1)]
    induction, lag = max((value, lag) for curve in curves for lag, value in curve.items() if value == value)
    return {
        "loss": float(fresh.task.loss(seen.outputs, fresh.targets)),
        "error": 1 - float(fresh.task.correct(seen.outputs, fresh).float().mean()),
        "induction": induction,
        "lag": lag,
    }


@torch.no_grad()
def known_error(model: Model, batch: Batch) -> float:
    """Share (0–1) of wrong answers in the first copy, where nothing can be copied yet."""
    draw, task = batch.draw, batch.task
    targets = task.targets({**draw, "starts": draw["starts"][:, :1].expand(-1, 2)})[..., 0]
    named = model(batch.inputs, at=task.query_positions).argmax(-1)
    return float((named != targets)[targets >= 0].float().mean())


@styled
def figure(table: DataFrame) -> Figure:
    """Loss on fresh segments, and attention of the induction head, by repetitions."""
    shown = picture(9.0, 3.4)
    mixed = table[table.pool > 0]
    for ax, name, words in zip(
        shown.subplots(1, 2), ("loss", "induction"), ("loss on fresh segments, nats", "attention"), strict=True
    ):
        ax.plot(mixed.repetitions, mixed[name], "o", ms=4, color=colour(0), label="half of them repeated")
        means = mixed.groupby("repetitions")[name].mean()
        ax.plot(means.index, means, lw=1.2, color=colour(0))
        for index, (half, label) in enumerate(((False, "none repeated"), (True, "the fresh half alone")), 1):
            part = table[(table.pool == 0) & (table.half == half)]
            ax.axhline(part[name].mean(), color=colour(index), lw=1.0, ls="--", label=label)
        ax.set(xscale="log", xlabel="times that a segment of the pool is seen", ylabel=words)
        ax.axhline(0, color=GREY, lw=0.5)
    shown.axes[0].legend()
    return shown
