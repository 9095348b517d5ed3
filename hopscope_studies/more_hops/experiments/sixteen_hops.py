"""Sixteen hops in one looped layer, by the recipe of `more_hops --scale long` with a rate that always falls. (ours)

The learning rate of `more_hops --scale long` is constant for three quarters of training, and `course` finds that hardly
a hop is learnt in most of this time. Here the rate falls from the first step to the last. Scale `long` trains the
sixteen hops, with more steps; `cpu` trains six.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config
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
SEEDS = {"quick": 1, "cpu": 5, "long": 5, "paper": 8}
SEQUENCES = {"quick": 8, "cpu": 128, "long": 256, "paper": 1024}
#: Number of heads and first learning rate of each variant of `more_hops --scale long`.
CHOSEN = {"looped": (2, 0.01), "looped, kv_shift": (4, 0.005)}


def runs(scale: str) -> Iterator[Config]:
    """One looped layer with the prior, and with KV shift and no prior, seed by seed."""
    yield from (config(name, seed, scale) for seed in range(SEEDS[scale]) for name in CHOSEN)


def config(name: str, seed: int, scale: str) -> Config:
    """A variant's run: that of `more_hops --scale long`, with its own numbers of hops, steps and heads, and rate."""
    made = more_hops.config(more_hops.variants("long")[name], seed, "long")
    hops, steps = TRAINED[scale], TRAINED[scale] * STAGE[scale]
    heads, rate = CHOSEN[name]
    model = made.model.but(n_layers=hops + 1, loops=hops + 1, n_heads=heads, d_model=16 if scale == "quick" else 128)
    training = {"lr": rate, "steps": steps, "decay_steps": steps, "checkpoints": str(STAGE[scale])}
    return Config(made.task.but(n_hops=hops), model, made.training.but(**training))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run, step, number of hops asked and number of loops.

    Columns: run, version, seed, prior, variant, D (hops trained), step (0 and the last), hops, loops (as many as hops,
    and one more), chains, accuracy, low, high (95 % Wilson interval over sequences), n.
    """
    return rows_of(runs, lambda run: measured(run, scale))


def measured(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """One run before and after training: each number of hops, and some more, with enough loops and with one too few."""
    trained, named = TRAINED[scale], namer({name: name for name in CHOSEN}, config, scale)
    for step in (0, run.config.training.steps):
        about = {"variant": named(run.config), "D": trained, "step": step}
        for hops in (*(hops for hops in course.HOPS if hops <= trained), trained + 1, 2 * trained):
            asked = further(run.at(step), run.task, [hops], [hops, hops + 1], n=SEQUENCES[scale])
            yield from (about | row for row in asked)


def most(rows: DataFrame) -> Series:
    """By run, the most hops that are learnt together with all fewer, of the numbers asked."""
    return course.front(rows.assign(steps=rows.step.max()), 1)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Thresholds are ours and were committed before the runs (README.md)."""
    trained = int(table.D.max())
    claim = more_hops.teller(table, "sixteen_hops", D=trained, more=trained + 1, twice=2 * trained)
    asked, few = table[table.loops == table.hops + 1], table[table.loops == table.hops]
    ended = asked[asked.step > 0]
    for id, name in {"prior": "looped", "kv_shift": "looped, kv_shift"}.items():
        rows = ended[ended.variant == name]
        learnt = rows[rows.hops <= trained]
        yield claim(f"{id}_learns", learnt, at_least=course.LEARNT)
        yield claim(f"{id}_most", learnt, most(learnt), "hops learnt", above=trained / 2, of="median")
        yield claim(f"{id}_one_more", rows[rows.hops == trained + 1], above=0.4)
    yield claim("twice_as_many", ended[ended.hops == 2 * trained], above=0.4)
    yield claim("one_loop_less", few[(few.step > 0) & (few.hops <= trained)], below=0.35)
    yield claim("untrained", asked[asked.step == 0], below=0.35)


@styled
def figure(table: DataFrame) -> Figure:
    """Accuracy by hops asked, a panel per variant: each seed, the mean, and the control of one loop too few."""
    shown, table = picture(10.5, 3.9), table[table.step > 0]
    for ax, name in zip(shown.subplots(1, len(CHOSEN), sharey=True), CHOSEN, strict=True):
        rows = table[(table.variant == name) & (table.hops <= table.D + 1)]
        for index, label in enumerate(("one loop more than hops", "control: as many loops as hops")):
            some = rows[rows.loops == rows.hops + 1 - index]
            for _, one in some.groupby("run"):
                ax.plot(one.hops, one.accuracy, color=colour(index), lw=0.7, alpha=0.5)
            mean = some.groupby("hops").accuracy.mean()
            ax.plot(mean.index, mean, color=colour(index), marker="o", ms=3, label=label)
        ax.axvline(table.D.max() + 0.5, color=GREY, lw=0.8, ls=":", zorder=0)
        ax.set(title=name, xlabel="hops asked (dots: trained to the left)", ylim=(-0.02, 1.04))
    shown.axes[0].set_ylabel("accuracy")
    shown.legend(*shown.axes[0].get_legend_handles_labels(), fontsize=8, ncols=2, loc="outside lower center")
    return shown
