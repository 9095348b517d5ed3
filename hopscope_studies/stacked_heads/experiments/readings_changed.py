"""Transformer D's recipe at a smaller shape, one thing changed at a time (Musat, ICLR 2025, sections 6, 7.1 and 9.1).

The paper's Transformer D waits for 3,600 of its 6,400 steps; with nearest facts first, trained as written, it learns
its first hop after 200 (docs/fidelity.md). Which of the choices that the paper leaves open lengthens the wait? The base
is the preset `transformer_d` (RoPE's base, GPT-2's initial weights, one head of 16 per layer, no MLP, batches of 256)
at D = 2 with 8 layers of width 256, which learns both hops in 320 steps (seed 0, tried once), in both orders of the
facts. Each change is tried in both orders with two seeds; three leading readings have eight. A run ends once every hop
is below 0.1, or after 3,000 steps; a hop that was not learnt by then counts as censored. No run has a prior.

The numbers of steps, and the predictions that `claims` judges, were committed before all runs but that one. The runs
take about eight core-hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.configuration.presets import recipe
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.curves import endings_of
from hopscope.experiments.judging import Claim, Evidence, bound, more_often
from hopscope.experiments.variants import TINY_TRAINING
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.experiments.readings_crossed import ENDS_BELOW, survival, whole
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "long": 10_800, "paper": 60_000}
CELL_SECONDS = 300

ORDERS = ("nearest_first", "deepest_first")
BASE, LEARNT_POSITIONS = "as in Transformer D", "learnt positions"
#: What is changed, by name: values of the task, the model and the training.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    BASE: ({}, {}, {}),
    LEARNT_POSITIONS: ({}, {"positions": "learned"}, {}),
    "code by pair": ({"position_code": "pair"}, {}, {}),
    "no mask": ({}, {"causal": False}, {}),
    "clipping at 1": ({}, {}, {"clip": 1.0}),
    "warm-up, then a cosine": ({}, {}, {"warmup": 200, "schedule": "cosine", "decay_steps": 2800}),
    "β₂ = 0.95": ({}, {}, {"beta2": 0.95}),
    "bfloat16": ({}, {}, {"dtype": "bfloat16"}),
    "batches of 128": ({}, {}, {"batch": 128}),
    "batches of 1,024": ({}, {}, {"batch": 1024}),
    "fresh examples": ({}, {}, {"examples": 0}),
    "width 128": ({}, {"d_model": 128}, {}),
    "width 512": ({}, {"d_model": 512}, {}),
    "2 heads per layer": ({}, {"n_heads": 2}, {}),
    "4 layers": ({}, {"n_layers": 4}, {}),
    "16 layers": ({}, {"n_layers": 16}, {}),
}
#: Readings that have more seeds: the presets in both orders, and the default of `hopscope train retrieval`.
LEADING = ((BASE, "nearest_first"), (BASE, "deepest_first"), (LEARNT_POSITIONS, "deepest_first"))
#: Seeds of each change, and of the leading readings.
SEEDS = {"quick": (1, 1), "cpu": (0, 1), "long": (2, 8), "paper": (8, 8)}
QUICK = (BASE, "clipping at 1")
HOPS, LAYERS, WIDTH, STEPS = 2, 8, 256, 3000
WAIT = 0.25  # share of a run: the paper's wait is over half of it (section 9.2), that of its models here 3 in 100
told = telling("readings_changed")


def runs(scale: str) -> Iterator[Config]:
    """All changes with their own seeds, seed by seed, then the additional seeds of the leading readings."""
    few, many = SEEDS[scale]
    names = QUICK if scale == "quick" else tuple(CHANGES)
    for seed in range(few):
        yield from (cell(name, order, seed, scale) for name, order in product(names, ORDERS))
    for seed in range(few, many):
        yield from (cell(name, order, seed, scale) for name, order in LEADING)


def cell(name: str, order: str, seed: int, scale: str) -> Config:
    """The configuration of one run."""
    of_task, of_model, of_training = CHANGES[name]
    base = recipe("transformer_d").config(seed=seed, steps=STEPS, stop_below=ENDS_BELOW, checkpoints=str(STEPS))
    task = base.task.but(n_hops=HOPS, order=order, **of_task)
    if scale == "quick":
        model = base.model.but(n_layers=2, d_model=16, d_head=8)
        tiny: dict[str, Any] = TINY_TRAINING | {"decay_steps": None} | of_training
        return Config(task, model, Training(**tiny, seed=seed))
    model = base.model.but(**{"n_layers": LAYERS, "d_model": WIDTH} | of_model)
    return Config(task, model, base.training.but(**of_training))


def name_of(config: Config) -> str:
    """What was changed in a run's configuration."""
    seed, order = config.training.seed, config.task.as_dict()["order"]
    names, scale = (CHANGES, "long") if config.training.steps == STEPS else (QUICK, "quick")
    return next(name for name in names if cell(name, order, seed, scale).identity == config.identity)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop: how it ended, and when it was learnt.

    Columns: those of `endings_of` (`learnt` is NaN where it was not by the last step), prior, order, change, sequences
    (seen until it was learnt).
    """
    found = endings_of(
        runs,
        order=lambda config: config.task.as_dict()["order"],
        change=name_of,
        batch=lambda config: config.training.batch,
    )
    return found.assign(sequences=found.learnt * found.batch)


@styled
def figure(table: DataFrame) -> Figure:
    """Left: when hops were learnt, by change and order. Right: the leading readings' share of runs still waiting."""
    names = [name for name in CHANGES if name in set(table.change)]
    shown = picture(11.5, 1.4 + 0.3 * len(names))
    axes = shown.subplots(1, 3, width_ratios=(1, 1, 0.9))
    for ax, order in zip(axes, ORDERS, strict=False):
        dots(ax, table[table.order == order], names)
        ax.set_title(order.replace("_", " "))
    axes[1].set_yticklabels([])
    for index, (name, order) in enumerate(LEADING):
        part = table[(table.change == name) & (table.order == order)]
        words = f"{order.replace('_', ' ')}{', learnt positions' * (name != BASE)}"
        if len(part):
            survival(axes[2], part[part.k == 1], colour(index), "-", words)
            survival(axes[2], part[part.k == HOPS], colour(index), ":", None)
    axes[2].set(xlabel="optimizer steps", xscale="log", ylim=(-0.03, 1.03), title="Not yet learnt: x1 (solid), x2")
    axes[2].set_xlim(10, 1.2 * STEPS)
    axes[2].legend(loc="lower left")
    return shown


def dots(ax: Axes, rows: DataFrame, names: list[str]) -> None:
    """Draw a dot per run and hop; a hop that was not learnt is an arrow at the right edge."""
    for row, name in enumerate(names):
        ax.axhline(row, color="#e4e4e4", lw=0.8, zorder=0)
        for k in range(1, HOPS + 1):
            learnt = rows[(rows.change == name) & (rows.k == k)].learnt
            when, never = learnt.dropna().to_numpy(), int(learnt.isna().sum())
            place = row + 0.24 * (k - 1.5)
            ax.plot(when, [place] * len(when), ls="", marker="o", ms=4, color=colour(k - 1))
            ax.plot([STEPS] * never, [place] * never, ls="", marker=">", ms=5, color=colour(k - 1), mfc="none")
    for k in range(1, HOPS + 1):
        ax.plot([], [], ls="", marker="o", ms=4, color=colour(k - 1), label=f"x{k}")
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="learnt at step (arrow: not by the last)", xscale="log", ylim=(len(names) - 0.5, -0.5))
    ax.set_xlim(50, 1.2 * STEPS)
    ax.legend(loc="lower left")


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that test the predictions made from Transformer D's own runs and the 96 runs of `readings_crossed`."""
    done = whole(table, runs)
    first = table[(table.k == 1) & (table.order == "nearest_first")]
    evidence, what = Evidence(first, "beyond (9.2)", among=table), "step at which x1 is learnt, as a share of all"
    found = first.learnt.fillna(math.inf) / STEPS
    yield told(evidence, "no_change_restores_the_wait", found, what, at_most=WAIT, provided=done, said={"steps": STEPS})
    yield depth_and_width(table)
    yield sooner(table)
    last = table[(table.k == HOPS) & (table.change == BASE)]
    by_order = {order: last[last.order == order].learnt for order in ORDERS}
    evidence = Evidence(last, "beyond (3.1, 6)", among=table)
    what = "share of runs that learn the second hop, less that with deepest facts first"
    nearest, deepest = (by_order[order].notna().mean() for order in ORDERS)
    also = [bound("share that learn it, nearest first", nearest, at_most=0.5)]
    yield told(
        evidence, "nearest_first_stays_at_the_first_hop", [nearest - deepest], what, below=0, also=also, provided=done
    )
    default = table[(table.change == LEARNT_POSITIONS) & (table.order == "deepest_first")]
    evidence, what = Evidence(default, "beyond (7.1)", among=table), "step at which a hop was learnt"
    steps, said = default.learnt.fillna(math.inf), {"steps": STEPS}
    yield told(evidence, "learnt_positions_learn_every_hop", steps, what, below=math.inf, provided=done, said=said)


def depth_and_width(table: DataFrame) -> Claim:
    """Judge whether more layers, or wider ones, learn the first hop sooner: pairs of equal order and seed."""
    times = table[table.k == 1].assign(when=table.learnt.fillna(math.inf)).set_index(["change", "order", "seed"]).when
    wins = losses = 0
    for more, less in (("16 layers", "4 layers"), ("width 512", "width 128")):
        for order, seed in product(ORDERS, sorted(set(table.seed))):
            some, others = (times.get((change, order, seed), math.nan) for change in (more, less))
            wins, losses = wins + (some < others), losses + (some > others)
    asked = table[table.change.isin(["16 layers", "4 layers", "width 512", "width 128"])]
    evidence, what = Evidence(asked, "beyond (9.1)", among=table), "share of pairs in which it is learnt sooner"
    share, also = [wins / (wins + losses)] if wins + losses else [], [more_often("more pairs sooner", wins, losses)]
    how: dict[str, Any] = {"n": asked.seed.nunique(), "also": also, "provided": whole(table, runs)}
    said = {"wins": wins, "pairs": wins + losses}
    return told(evidence, "more_depth_and_width_is_sooner", share, what, said=said, **how)


def sooner(table: DataFrame) -> Claim:
    """Judge whether the first hop comes sooner with nearest facts first, by seed of the base."""
    rows = table[(table.k == 1) & (table.change == BASE)]
    pairs = rows.assign(when=rows.learnt.fillna(math.inf)).pivot(index="seed", columns="order", values="when")
    pairs = pairs.reindex(columns=list(ORDERS)).dropna()
    nearest, deepest = (pairs[order].to_numpy() for order in ORDERS)
    wins, losses = int((nearest < deepest).sum()), int((nearest > deepest).sum())
    evidence, what = Evidence(rows, "beyond (3.1, 6)", among=table), "share of seeds in which it is learnt sooner"
    share, also = [wins / (wins + losses)] if wins + losses else [], [more_often("more seeds sooner", wins, losses)]
    how: dict[str, Any] = {"n": wins + losses, "also": also, "provided": whole(table, runs)}
    return told(evidence, "nearest_first_is_sooner", share, what, said={"wins": wins, "seeds": wins + losses}, **how)
