"""A share of the sequences hold segments from a pool: loss and copying by the number of repetitions.

A toy analogue of Hernandez et al. (2022, arXiv:2205.10487), of which only the abstract was read. Two layers of
attention learn to continue a repeated segment. In a share f of the sequences the segment is one of P, so each is seen
(f · steps · batch / P) times. The baselines are no repetition with as many sequences, the fresh sequences alone, and
narrower models without repetition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.tables import rows_of
from hopscope.measures.base import observe
from hopscope.measures.lag_attention import by_lag
from hopscope.models.base import Model
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.repeated_data.claims import at_the_end, claims as claims

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 5, "cpu": 360, "long": 1500, "paper": 40_000}
CELL_SECONDS = 40

SEEDS = {"quick": 1, "cpu": 5, "long": 20, "paper": 5}
POOLS = {"quick": (2, 4, 8), "cpu": (2, 8, 64, 512, 4096), "paper": (8, 32, 128, 512, 2048, 8192, 32768)}
TASKS: dict[str, dict[str, Any]] = {
    "quick": {"length": 20, "d_vocab": 16, "shortest": 4, "longest": 6},
    "cpu": {},
    "paper": {"length": 64, "shortest": 10, "longest": 19, "skipped": 4, "asked": "all"},
}
SHARES = {"quick": 0.5, "cpu": 0.5, "paper": 0.1}  # of the sequences have segments from the pool
WIDTHS = {"quick": 16, "cpu": 32, "paper": 64}
NARROWER = {"quick": (8,), "cpu": (16, 24), "paper": (16, 32, 48)}  # models without repetition, to compare sizes
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 16, "lr": 3e-3, "log_every": 10, "val_size": 32, "checkpoints": "10"},
    "cpu": {"steps": 2000, "batch": 64, "lr": 3e-3, "log_every": 50, "val_size": 256, "checkpoints": "50"},
    "paper": {"steps": 20_000, "batch": 50, "lr": 1e-3, "log_every": 100, "val_size": 512, "checkpoints": "200"},
}
ADAMW: dict[str, Any] = {"weight_decay": 5e-4, "beta2": 0.98}
SEQUENCES = {"quick": 32, "cpu": 512, "paper": 2000}


def runs(scale: str) -> Iterator[Config]:
    """No repetition, the fresh sequences alone, each pool, and narrower models without repetition."""
    seeds, scale = range(SEEDS[scale]), size(scale)
    for seed in seeds:
        yield cell(seed, scale)
        yield cell(seed, scale, alone=True)
        yield from (cell(seed, scale, pool) for pool in POOLS[scale])
        yield from (cell(seed, scale, width=width) for width in NARROWER[scale])


def size(scale: str) -> str:
    """The scale that a scale's models are of: those of `long` are of `cpu`, in more seeds."""
    return "cpu" if scale == "long" else scale


def cell(seed: int, scale: str, pool: int = 0, *, alone: bool = False, width: int = 0) -> Config:
    """One model; with the fresh sequences alone batches are smaller. By default it is that of `composition`."""
    share, batch = SHARES[scale], TRAININGS[scale]["batch"]
    how = dict(TRAININGS[scale], batch=round(batch * (1 - share)) if alone else batch)
    task = RepeatedSegment(**TASKS[scale]).but(pool=pool, pool_share=share if pool else 1.0)
    shape = Architecture(n_layers=2, d_model=width or WIDTHS[scale], mlp=False, positions="rotary", init="early_layers")
    return Config(task, shape, Training(**how, **ADAMW, seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and step: run, version, seed, step, pool (0: none), alone (the fresh sequences alone), width,
    parameters, repetitions (by the end), loss (nats) and error on fresh segments, known_error and fresh_known_error (in
    the first copy, of the pool's segments and of fresh ones), induction (attention of the last layer's best head at its
    best lag), lag, untrained_error. Of the checkpoints after step 0 every fifth is measured, the last among them.
    """
    return rows_of(runs, lambda run: [state(run, step, size(scale)) for step in reversed(run.steps[::-5]) if step])


def state(run: Run, step: int, scale: str) -> dict[str, Any]:
    """The row of a run at one step."""
    task, training = run.config.task, run.config.training
    assert isinstance(task, RepeatedSegment)
    model, n = run.at(step), SEQUENCES[scale]
    fresh = task.but(pool=0, pool_share=1.0, asked="copy").sample(n, generator(0, "fresh"))
    pooled = task.but(pool_share=1.0, asked="copy").sample(n, generator(0, "pooled"))
    repeated = training.steps * training.batch * task.pool_share
    return {
        "step": step,
        "pool": task.pool,
        "alone": training.batch < TRAININGS[scale]["batch"],
        "width": model.architecture.d_model,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "repetitions": repeated / task.pool if task.pool else 1.0,
        **copying(model, fresh),
        "known_error": known_error(model, pooled),
        "fresh_known_error": known_error(model, fresh),
        "untrained_error": copying(run.at(0), fresh)["error"],
    }


def copying(model: Model, fresh: Batch) -> dict[str, float]:
    """Loss and error on fresh segments, and the last layer's attention at its best lag."""
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
    """The error (0–1) in the first copy, where nothing can be copied yet."""
    draw, task = batch.draw, batch.task
    targets = task.targets({**draw, "starts": draw["starts"][:, :1].expand(-1, 2)})[..., 0]
    named = model(batch.inputs, at=task.query_positions).argmax(-1)
    return float((named != targets)[targets >= 0].float().mean())


@styled
def figure(table: DataFrame) -> Figure:
    """Loss on fresh segments, attention of the induction head, errors in the first copy, by repetitions; and losses."""
    shown = picture(14.5, 3.6)
    *axes, last = shown.subplots(1, 4).tolist()
    course(last, table[(table.width == table.width.max()) & ~table.alone])
    table = at_the_end(table)
    whole = table[table.width == table.width.max()]
    mixed = whole[whole.pool > 0]
    measured = (("loss", "loss on fresh segments, nats"), ("induction", "attention of the induction head"))
    for ax, (name, words) in zip(axes[:2], measured, strict=True):
        by_repetition(ax, mixed, name, colour(0), "each of a pool's segments")
        for index, (alone, label) in enumerate(((False, "none repeated"), (True, "the fresh ones alone")), 1):
            part = whole[(whole.pool == 0) & (whole.alone == alone)]
            ax.axhline(part[name].median(), color=colour(index), lw=1.0, ls="--", label=label)
        ax.set_ylabel(words)
    for index, width in enumerate(sorted(table.width.unique())[:-1]):
        level = table[table.width == width].loss.median()
        axes[0].axhline(level, color=GREY, lw=0.8, ls=(":", "-.")[index % 2], label=f"none repeated, width {width}")
    for index, (name, label) in enumerate((("known_error", "the pool's"), ("fresh_known_error", "fresh segments"))):
        by_repetition(axes[2], mixed, name, colour(3 + index), label)
    axes[2].set_ylabel("errors in the first copy")
    for ax in axes:
        ax.set(xscale="log" if len(mixed) else "linear", xlabel="times that a segment is seen", ylim=(0, None))
        ax.legend(fontsize=7, loc="center left")
    return shown


def course(ax: Axes, rows: DataFrame) -> None:
    """The mean loss on fresh segments over training, a line per pool."""
    for index, pool in enumerate(sorted(rows.pool.unique())):
        means = rows[rows.pool == pool].groupby("step").loss.mean()
        ax.plot(means.index, means, color=colour(index), lw=1.2, label=f"pool of {pool}" if pool else "none repeated")
    ax.set(xlabel="step", ylabel="mean loss on fresh segments, nats", ylim=(0, None))
    ax.legend(fontsize=7)


def by_repetition(ax: Axes, mixed: DataFrame, name: str, shade: str, label: str) -> None:
    """A mark per run, and a line through the medians."""
    ax.plot(mixed.repetitions, mixed[name], "o", ms=3.5, color=shade, label=label)
    middle = mixed.groupby("repetitions")[name].median()
    ax.plot(middle.index, middle, lw=1.2, color=shade)
