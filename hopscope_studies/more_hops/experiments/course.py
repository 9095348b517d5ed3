"""How many hops has a looped model learnt at each point of training, and what keeps it from more? (ours)

The runs of scale `long` are those of `more_hops --scale long`, so they are trained once for both. The other scales have
the same recipe with fewer hops. Each kept checkpoint is asked for the numbers of hops that its stage or an earlier one
posed, on chains of so many hops, and for the same hops of the longest chains posed so far.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, picture, styled
from hopscope.experiments.judging import Claim
from hopscope.experiments.long_table import namer
from hopscope.experiments.tables import rows_of
from hopscope.runs.further import further
from hopscope.runs.run import Run
from hopscope_studies.more_hops.experiments import more_hops

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 220, "long": 600, "paper": 1500}
CELL_SECONDS = 1200

VARIANTS = more_hops.variants("long")
TRAINED = {"quick": 2, "cpu": 6, "long": 16, "paper": 8}  # D, and as many stages
STAGE = {"quick": 4, "cpu": 80, "paper": 200}  # steps
HOPS = (1, 2, 4, 6, 8, 10, 12, 14, 16)
SEEDS = {"quick": 1, "cpu": 5, "long": 5, "paper": 8}
SEQUENCES = {"quick": 8, "cpu": 64, "long": 32, "paper": 256}
LEARNT = 0.8  # accuracy, as in `more_hops`
KEPT = 3 / 4  # of training has a constant learning rate


def runs(scale: str) -> Iterator[Config]:
    """One looped layer with the prior, and with KV shift and no prior, seed by seed."""
    yield from (config(one, seed, scale) for seed in range(SEEDS[scale]) for one in VARIANTS.values())


def config(variant: dict[str, dict[str, Any]], seed: int, scale: str) -> Config:
    """A run of `more_hops --scale long`, at other scales with fewer hops and shorter stages."""
    made = more_hops.config(variant, seed, "long")
    return made if scale == "long" else staged(made, TRAINED[scale], STAGE[scale], scale, log_every=4)


def staged(made: Config, hops: int, stage: int, scale: str, falls: float = 0.25, heads: int = 2, **more: Any) -> Config:
    """A run with another number of hops and of steps per stage, whose rate falls in the last part of training."""
    steps, width = hops * stage, 16 if scale == "quick" else 128
    lasting: dict[str, Any] = {"steps": steps, "decay_steps": int(falls * steps), "checkpoints": str(stage)}
    model = made.model.but(n_layers=hops + 1, loops=hops + 1, n_heads=heads, d_model=width)
    return Config(made.task.but(n_hops=hops), model, made.training.but(**lasting | more))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, checkpoint and number of hops.

    Columns: run, version, seed, prior, variant, D, steps (of the whole training), step, stage (the hops of the longest
    chains posed so far; at step 0 of the longest asked), loss (the highest training loss logged since the checkpoint
    before), hops, accuracy (on chains of so many hops, after one loop more), low, high (95 % Wilson interval over
    sequences), longest (accuracy for the same hop of chains of `stage` hops), n (sequences).
    """
    return rows_of(runs, lambda run: measured(run, scale))


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One run, checkpoint by checkpoint."""
    trained, n, steps = TRAINED[scale], SEQUENCES[scale], run.config.training.steps
    about = {"variant": namer(VARIANTS, config, scale)(run.config), "D": trained, "steps": steps}
    losses = {row["step"]: row["train_loss"] for row in run.rows if row["train_loss"] is not None}
    for step in run.steps:
        stage, model = step * trained // steps or min(4, trained), run.at(step)
        since = [loss for at, loss in losses.items() if step - steps // trained < at <= step]
        row = {"step": step, "stage": stage, "loss": max(since, default=math.nan)}
        longest = on_longest(model, run.task.at(stage), n)
        for hops in HOPS:
            if hops <= stage:
                [own] = further(model, run.task, [hops], [hops + 1], n=n)
                asked = {name: own[name] for name in ("hops", "accuracy", "low", "high", "n")}
                yield about | row | asked | {"longest": longest[hops - 1]}


@torch.no_grad()
def on_longest(model: Any, task: Any, n: int) -> list[float]:
    """The accuracy for each hop of the same chains, of hop h after h + 1 loops."""
    posed = task.but(curriculum="implicit")
    batch = posed.sample(n, generator(0, "course"))
    names = [f"blocks.{hop}.hook_resid_post" for hop in range(1, posed.n_hops + 1)]
    longer = model.looped(posed.n_hops + 1, n_positions=posed.n_positions)
    _, cache = longer(batch.inputs, at=posed.query_positions, cache=names)
    outputs = torch.cat([longer.read_off(cache[name], posed.query_positions) for name in names], -1)
    return list(map(float, posed.correct(outputs, batch).float().mean(0)))


def front(rows: DataFrame, part: float) -> Series:
    """By run, the most hops that are learnt together with all fewer, at the last checkpoint by a part of training."""
    now = at(rows, part)
    missed = now.hops.where(now.accuracy < LEARNT, math.inf).groupby(now.run).transform("min")
    return now.hops.where(now.hops < missed, 0).groupby(now.run).max()


def at(rows: DataFrame, part: float) -> DataFrame:
    """The rows of each run's last checkpoint by a part of training, from 0 to 1."""
    rows = rows[rows.step <= part * rows.steps]
    return rows[rows.step == rows.groupby("run").step.transform("max")]


def of_hops(rows: DataFrame, hops: int, column: str = "accuracy") -> Series:
    """By run, a column of the rows of so many hops."""
    return rows[rows.hops == hops].set_index("run")[column]


def largest_fall(rows: DataFrame) -> Series:
    """By run, how far the accuracy for any number of hops falls below an earlier checkpoint's."""
    falls = rows.groupby(["run", "hops"]).accuracy.agg(lambda course: (course.cummax() - course).max())
    return falls.groupby("run").max()


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours and were committed before the measurements (README.md)."""
    table = table.assign(best=table.groupby(["run", "hops"]).accuracy.transform("max"))
    before, end = at(table, KEPT), at(table, 1)
    claim = more_hops.teller(table, "course")
    gained = front(table, KEPT) - front(table, KEPT / 2)
    yield claim("stops", table, gained, "hops gained", at_most=0, of="median")
    risen = (of_hops(end, 6) - of_hops(before, 6)).dropna()
    yield claim("falling_rate", table, risen, "accuracy gained", above=0.2, of="median")
    yield claim("kept", table, (end.best - end.accuracy).groupby(end.run).max(), "accuracy lost", at_most=0.1)
    prior = table[(table.variant == "looped") & (table.step <= KEPT * table.steps) & (table.hops <= 4)]
    yield claim("falls_back", prior, largest_fall(prior), "accuracy lost", at_least=0.1, of="median")
    yield claim("bounded", table, table.loss.groupby(table.run).max(), "training loss logged", below=1.25)
    behind = (of_hops(before, 2) - of_hops(before, 2, "longest")).dropna()
    yield claim("long_chains", table, behind, "difference of accuracies", above=0.1, of="median")
    yield claim("untrained", table[table.step == 0], below=0.35)


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy over training by hops asked, a panel per variant."""
    shown = picture(10.5, 3.9)
    table = table[table.step > 0]
    for ax, name in zip(shown.subplots(1, len(VARIANTS), sharey=True), VARIANTS, strict=True):
        hop_lines(ax, table[table.variant == name], "accuracy")
        ax.axvline(KEPT * table.steps.max(), color=GREY, lw=0.8, ls=":", zorder=0)
        ax.set(title=name, xlabel="step (dots: the learning rate falls from here)", ylim=(-0.02, 1.04))
    shown.axes[0].set_ylabel("accuracy")
    shown.legend(*shown.axes[0].get_legend_handles_labels(), title="hops", fontsize=7, loc="outside right center")
    return shown


def hop_lines(ax: Axes, table: DataFrame, column: str) -> None:
    """A column over training by hops asked: means over seeds, and each seed as a thin line."""
    tints = colormaps["viridis_r"].resampled(table.hops.nunique() + 1)  # the palest is left out
    for index, (hops, rows) in enumerate(table.groupby("hops"), 1):
        run_lines(ax, rows, column, color=to_hex(tints(index)), label=f"{hops}", middle="mean")
