"""Sixteen hops in one looped layer, by the recipe of `more_hops --scale long` with a rate that always falls. (ours)

The learning rate of `more_hops --scale long` is constant for three quarters of training, and `course` finds that hardly
a hop is learnt in most of this time. Here the rate falls from the first step to the last. Scale `long` trains the
sixteen hops, with more steps; `cpu` trains six. A third variant has no prior at all: softmax attention with rotary
positions, four heads and a small MLP. It is not trained at `cpu`, where stages are too short for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
from hopscope.core.seeds import generator
from hopscope.drawing.curves import run_lines
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim
from hopscope.experiments.long_table import namer
from hopscope.experiments.tables import rows_of
from hopscope.runs.further import further
from hopscope.runs.run import Run
from hopscope_studies.more_hops.experiments import course, more_hops

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 240, "long": 6600, "paper": 12_000}
CELL_SECONDS = 1200

TRAINED = {"quick": 2, "cpu": 6, "long": 16, "paper": 16}  # D, and as many stages
STAGE = {"quick": 4, "cpu": 80, "long": 375, "paper": 375}  # steps
SEQUENCES = {"quick": 8, "cpu": 128, "long": 256, "paper": 1024}
SOLVED = 0.1  # mean squared error, as on the board
#: Heads and first learning rate of each variant of `more_hops --scale long`; and of one without any prior.
CHOSEN = {"looped": (2, 0.01), "looped, kv_shift": (4, 0.005), "looped, rotary": (4, 0.01)}
#: What the last variant changes in the model of the first.
FREE: dict[str, dict[str, Any]] = {"looped, rotary": {"positions": "rotary", "mlp": True, "d_mlp": 128}}


def runs(scale: str) -> Iterator[Config]:
    """One looped layer with the prior, with KV shift and no prior in its weights, and with no prior, seed by seed."""
    names = [name for name in CHOSEN if scale != "cpu" or name not in FREE]
    yield from (config(name, seed, scale) for seed in range(course.SEEDS[scale]) for name in names)


def config(name: str, seed: int, scale: str) -> Config:
    """A variant's run: that of `more_hops --scale long`, with its own numbers of hops, steps and heads, and rate."""
    base, (heads, rate) = "looped" if name in FREE else name, CHOSEN[name]
    made = more_hops.config(more_hops.variants("long")[base], seed, "long")
    made = replace(made, model=made.model.but(**FREE.get(name, {})))
    return course.staged(made, TRAINED[scale], STAGE[scale], scale, falls=1, heads=heads, lr=rate)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, step, number of hops asked and number of loops; then the course of each run.

    Columns: run, version, seed, prior, variant, D (hops trained), step (0 and the last), hops, loops (as many as hops,
    and one more), chains, accuracy, low, high (95 % Wilson interval over sequences), n. Rows of the course have the
    mean squared error, too (loss).
    """
    return rows_of(runs, lambda run: measured(run, scale))


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One run before and after training: each number of hops, and some more, with enough loops and with one too few.

    Then its course: every kept checkpoint is asked a fourth of the sequences, and the last one is asked all.
    """
    trained, named, n = TRAINED[scale], namer({name: name for name in CHOSEN}, config, scale), SEQUENCES[scale]
    about, last = {"variant": named(run.config), "D": trained}, run.config.training.steps
    posed = [hops for hops in course.HOPS if hops <= trained]
    for step in (0, last):
        for hops in (*posed, trained + 1, 2 * trained):
            asked = further(run.at(step), run.task, [hops], [hops, hops + 1], n=n)
            yield from (about | {"step": step} | row for row in asked)
    for step, hops in ((step, hops) for step in run.steps for hops in posed):
        some, model = n if step == last else n // 4, run.at(step)
        [row] = further(model, run.task, [hops], [hops + 1], n=some)
        yield about | {"step": step} | row | {"loss": loss_of(model, run.task.at(hops), some)}


@torch.no_grad()
def loss_of(model: Any, task: Any, n: int) -> float:
    """The mean squared error of the answers that `further` judges, after one loop more than the task's hops."""
    batch = task.sample(n, generator(0, "further", task.n_hops, model.device))
    longer = model.looped(task.n_hops + 1, n_positions=task.n_positions)
    return float(task.loss(longer(batch.inputs, at=task.query_positions), batch.targets))


def most(rows: DataFrame) -> Series:
    """By run, the most hops that are learnt together with all fewer, of the numbers asked."""
    return course.front(rows.assign(steps=rows.step.max()), 1)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours. They were committed before the runs, and those on curves before the curves (README.md)."""
    trained = int(table.D.max())
    claim = more_hops.teller(table, "sixteen_hops", D=trained, more=trained + 1, twice=2 * trained)
    curves, table = table[table.loss.notna()], table[table.loss.isna()]
    asked, few = table[table.loops == table.hops + 1], table[table.loops == table.hops]
    ended = asked[asked.step > 0]
    for id, name in zip(("prior", "kv_shift", "rotary"), CHOSEN, strict=True):
        rows = ended[ended.variant == name]
        learnt = rows[rows.hops <= trained]
        yield claim(f"{id}_learns", learnt, at_least=course.LEARNT)
        yield claim(f"{id}_most", learnt, most(learnt), "hops learnt", above=trained / 2, of="median")
        yield claim(f"{id}_one_more", rows[rows.hops == trained + 1], above=0.4)
    yield claim("twice_as_many", ended[ended.hops == 2 * trained], above=0.4)
    yield claim("one_loop_less", few[(few.step > 0) & (few.hops <= trained)], below=0.35)
    yield claim("untrained", asked[asked.step == 0], below=0.35)
    last, far = curves[curves.step == curves.step.max()], curves[curves.hops == trained]
    solved = most(last.assign(accuracy=(last.loss < SOLVED).astype(float)))
    yield claim("solved", last, solved, "hops solved", above=trained / 2, of="median")
    prior = curves[(curves.variant == "looped") & (curves.hops <= 4)]
    yield claim("kept", prior, course.largest_fall(prior), "accuracy lost", below=0.1, of="median")
    fallen = far.groupby("run").loss.agg(lambda losses: losses.iloc[-2] - losses.iloc[-1])
    far, fallen = far[far.run.map(solved) < trained], fallen[solved < trained]
    yield claim("unfinished", far, fallen, "fall of the loss", above=0.05)


@styled
def figure(table: DataFrame) -> Figure:
    """A column per variant. Above: accuracy by hops asked, and the control of one loop too few. Below: loss by step."""
    there = [name for name in CHOSEN if (table.variant == name).any()]
    shown = picture(1.5 + 4.5 * len(there), 7.4)
    curves, table = table[table.loss.notna()], table[table.loss.isna() & (table.step > 0)]
    upper, lower = shown.subplots(2, len(there), sharey="row", squeeze=False)
    for ax, below, name in zip(upper, lower, there, strict=True):
        rows = table[(table.variant == name) & (table.hops <= table.D + 1)]
        for index, label in enumerate(("one loop more than hops", "control: as many loops as hops")):
            some = rows[rows.loops == rows.hops + 1 - index]
            run_lines(ax, some, "accuracy", "hops", color=colour(index), label=label, middle="mean")
        ax.axvline(table.D.max() + 0.5, color=GREY, lw=0.8, ls=":", zorder=0)
        ax.set(title=name, xlabel="hops asked (dots: trained to the left)", ylim=(-0.02, 1.04))
        course.hop_lines(below, curves[curves.variant == name], "loss")
        below.axhline(SOLVED, color=GREY, lw=0.8, ls=":", zorder=0)
        below.set(xlabel="step (dots: solved below)", ylim=(-0.02, 1.4))
    upper[0].set_ylabel("accuracy")
    upper[0].legend(fontsize=8)
    lower[0].set_ylabel("loss by hops asked")
    shown.legend(*lower[0].get_legend_handles_labels(), title="hops", fontsize=7, loc="outside right lower")
    return shown
