"""Which of the paper's open choices decides whether hops are learnt without a prior, and when? (Musat, ICLR 2025)

Four choices are crossed in full: the order of the facts (sections 3.1 and 6 differ), the base of the position code
(RoPE's 10,000 of section 6, or 100, which runs of this project had), the initial weights (GPT-2's, after section 7.1;
`fan_in`; `early_layers`, ours), and whether positions are learnt beside the code, as in GPT-2. Models have one head per
layer, width 64 and no MLP: 4 layers for D = 2, 6 for D = 3. A run ends once every hop is below 0.1, or after 4,000
steps; a hop that was not learnt by then counts as censored. No run has a prior. The paper's models are larger, and
wider or deeper ones learn sooner (docs/fidelity.md).

The predictions that `claims` judges come from single exploratory runs and were committed before the first run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.drawing.style import colour, picture, styled
from hopscope.experiments.curves import endings_of
from hopscope.experiments.judging import Bound, Claim, Evidence, bound, more_often
from hopscope.experiments.values import lags
from hopscope.experiments.variants import TINY_TRAINING
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 700, "long": 9000, "paper": 60_000}
CELL_SECONDS = 300

#: The choices, and what each may be.
CHOICES: dict[str, tuple[Any, ...]] = {
    "order": ("nearest_first", "deepest_first"),
    "base": (100.0, 10_000.0),
    "init": ("gpt2", "fan_in", "early_layers"),
    "positions": ("input", "learned"),
}
#: Choice, and two of its values: with the first, it was predicted, the first hop is learnt sooner than with the second.
PREDICTED = {
    "nearest_first_is_sooner": ("order", "nearest_first", "deepest_first"),
    "learnt_positions_are_sooner": ("positions", "learned", "input"),
    "gpt2_is_sooner_than_early_layers": ("init", "gpt2", "early_layers"),
    "small_base_is_sooner": ("base", 100.0, 10_000.0),
}
LAYERS = {2: 4, 3: 6}  # by D
STEPS, ENDS_BELOW = 4000, 0.1
#: D, seeds and what is left out, by scale; `cpu` has GPT-2's weights alone.
SIZES = {"quick": ((2,), 1), "cpu": ((2,), 1), "long": ((2, 3), 2), "paper": ((2, 3), 8)}
told = telling("readings_crossed")


def runs(scale: str) -> Iterator[Config]:
    """Every combination of the choices, seed by seed and D by D, so that runs cut short still form complete sets."""
    hops, seeds = SIZES[scale]
    for seed, n_hops in product(range(seeds), hops):
        for choice in product(*CHOICES.values()):
            chosen = dict(zip(CHOICES, choice, strict=True))
            if is_at(scale, chosen):
                yield cell(n_hops, chosen, seed, scale)


def is_at(scale: str, chosen: dict[str, Any]) -> bool:
    """Whether a scale has a combination: `quick` has two, and `cpu` those with GPT-2's weights."""
    if scale == "quick":
        return chosen["init"] == "gpt2" and chosen["base"] == 10_000.0 and chosen["positions"] == "learned"
    return scale != "cpu" or chosen["init"] == "gpt2"


def cell(n_hops: int, chosen: dict[str, Any], seed: int, scale: str) -> Config:
    """The configuration of one run."""
    task = Retrieval(n_hops=n_hops, order=chosen["order"], position_base=chosen["base"])
    model = Architecture(
        n_layers=LAYERS[n_hops],
        d_model=16 if scale == "quick" else 64,
        mlp=False,
        init=chosen["init"],
        positions=chosen["positions"],
    )
    whole: dict[str, Any] = {"steps": STEPS, "stop_below": ENDS_BELOW, "checkpoints": str(STEPS)}
    tiny = TINY_TRAINING | {"decay_steps": None}
    return Config(task, model, Training(**(tiny if scale == "quick" else whole), seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop: how it ended, and when it was learnt.

    Columns: those of `endings_of` (`learnt` is NaN where it was not by the last step), prior, D, order, base, init,
    positions.
    """
    return endings_of(
        runs,
        D=lambda config: config.task.as_dict()["n_hops"],
        order=lambda config: config.task.as_dict()["order"],
        base=lambda config: config.task.as_dict()["position_base"],
        init=lambda config: config.model.as_dict()["init"],
        positions=lambda config: config.model.as_dict()["positions"] or "input",
    )


@styled
def figure(table: DataFrame) -> Figure:
    """A row per D, a column per choice: the share of runs that have not learnt a hop, by step, for each value."""
    hops = sorted(table.D.unique())
    shown = picture(11.0, 0.6 + 2.4 * len(hops))
    axes = shown.subplots(len(hops), len(CHOICES), sharex=True, sharey=True, squeeze=False)
    for row, n_hops in zip(axes, hops, strict=True):
        for ax, choice in zip(row, CHOICES, strict=True):
            part = table[n_hops == table.D]
            for index, (value, some) in enumerate(part.groupby(choice)):
                survival(ax, some[some.k == 1], colour(index), "-", worded(value))
                survival(ax, some[some.k == n_hops], colour(index), ":", None)
            ax.set_title(f"D = {n_hops}, by {choice}")
            ax.legend(loc="lower left")
        row[0].set_ylabel("share of runs that have not learnt\nx1 (solid), the last hop (dotted)")
    for ax in axes[-1]:
        ax.set(xlabel="optimizer steps", xscale="log", ylim=(-0.03, 1.03))
    return shown


def worded(value: Any) -> str:
    """A choice's value as the figure has it."""
    return f"{value:,g}" if isinstance(value, float) else str(value).replace("_", " ")


def survival(ax: Axes, rows: DataFrame, tint: str, dashes: str, label: str | None) -> None:
    """Draw the share of runs that had not learnt a hop by each step; censored runs stay to the end."""
    times = numpy.sort(rows.learnt.dropna().to_numpy())
    steps = [10.0, *times, float(rows.steps.max())]
    left = [1 - done / len(rows) for done in (0, *range(1, len(times) + 1), len(times))]
    ax.step(steps, left, where="post", color=tint, ls=dashes, label=label)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims that state the predictions for each choice, all else equal, and for our default reading."""
    ours = "D == 2 and order == 'deepest_first' and base == 10_000 and init == 'gpt2' and positions == 'learned'"
    default = table.query(ours)
    evidence, what = Evidence(default, "beyond (3.1, 6, 7.1)", source=""), "step at which a hop was learnt"
    steps, said, provided = default.learnt.fillna(math.inf), {"steps": table.steps.max()}, whole(table, runs)
    yield told(evidence, "the_default_reading_learns", steps, what, below=math.inf, provided=provided, said=said)
    first = table[table.k == 1]
    yield from (compared(first, id, *predicted, provided) for id, predicted in PREDICTED.items())
    deepest = table[(table.order == "deepest_first") & (table.k == table.D)]
    yield compared(deepest, "rope_base_learns_the_last_hop", "base", 10_000.0, 100.0, provided)
    waits = lags(table.pivot(index="run", columns="k", values="learnt").itertuples(index=False))
    evidence, what = Evidence(table, "beyond (7.2)", source="paper"), "number of steps from a hop to the next"
    yield told(evidence, "hops_in_order", waits, what, n=len(waits), number="median", above=0, provided=provided)


def whole(table: DataFrame, runs: Callable[[str], Iterator[Config]]) -> Bound:
    """A bound that holds if every run is done, so that nobody can stop early at a convenient verdict."""
    scales = set(table.scale) if "scale" in table else set()
    asked = sum(len(list(runs(str(scale)))) for scale in scales)
    return bound("runs that are done", table.run.nunique(), at_least=asked)


def compared(rows: DataFrame, id: str, choice: str, this: Any, that: Any, provided: Bound | None = None) -> Claim:
    """Judge whether a hop is learnt sooner with one value of a choice than with another, all other choices equal.

    A pair in which neither run learnt it is left out. If only one run did, the other counts as later.
    """
    same = [column for column in ("D", "seed", *CHOICES) if column != choice]
    pairs = rows.assign(when=rows.learnt.fillna(math.inf)).pivot(index=same, columns=choice, values="when")
    both = pairs.reindex(columns=[this, that]).dropna()
    sooner = (both[this] < both[that])[both[this] != both[that]]
    wins, n = int(sooner.sum()), len(sooner)
    shares = sooner.groupby(level="seed").mean()
    also, said = [more_often("more pairs sooner than later", wins, n - wins)], {"wins": wins, "pairs": n}
    what = "share of pairs in which it is learnt sooner, seed by seed,"
    how: dict[str, Any] = {"n": len(shares), "number": "mean", "above": 0.5, "unanimous": True, "provided": provided}
    return told(Evidence(rows, "beyond (3.1, 6, 7.1)"), id, shares, what, also=also, said=said, **how)
