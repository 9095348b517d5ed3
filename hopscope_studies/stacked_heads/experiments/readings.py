"""What the paper leaves open: which readings learn which hops (Musat, ICLR 2025, sections 6, 7.1 and 9.1).

Order of the facts, position code, mask, initialisation, AdamW's betas, warm-up, what decays, finite or fresh data: each
is an option, and docs/fidelity.md names the default. Here each reading alone replaces the default in the packaged run's
model and recipe (4 layers of one head, D = 2, 1,000 steps). "As we have it" is `packaged_seeds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.curves import endings_of
from hopscope.experiments.judging import Claim, Evidence
from hopscope.experiments.variants import variants
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 9, "cpu": 670, "paper": 40_000}

#: The changes of each reading from the default, by name.
READINGS: dict[str, dict[str, Any]] = {
    "as we have it": {},
    "order deepest_first": {"task": {"order": "deepest_first"}},
    "order shuffled": {"task": {"order": "shuffled"}},
    "position code per pair": {"task": {"position_code": "pair"}},
    "frequencies of RoPE": {"task": {"position_base": 10000.0}},
    "no causal mask": {"model": {"causal": False}},
    "init gpt2": {"model": {"init": "gpt2"}},
    "init fan_in": {"model": {"init": "fan_in"}},
    "beta2 0.95": {"training": {"beta2": 0.95}},
    "warm-up of 100 steps": {"training": {"warmup": 100}},
    "decay on matrices only": {"training": {"decay_on": "matrices"}},
    "2^18 examples": {"training": {"examples": 1 << 18}},
}
told = telling("readings")


def named(scale: str) -> Iterator[tuple[str, Config]]:
    """Each reading's name with its configurations, over seeds."""
    for name, changes in READINGS.items():
        if scale == "quick" and "warmup" in changes.get("training", {}):
            changes = {"training": {"warmup": 2}}  # tests train for fewer steps than that
        yield from ((name, config) for config in variants(scale, **changes))


def runs(scale: str) -> Iterator[Config]:
    """Each reading, over seeds; the default is `packaged_seeds`, the orders are runs of `pair_order`."""
    return (config for _, config in named(scale))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and hop, as made by `endings_of`, with the reading."""
    names = {config.identity: name for name, config in named(scale)}
    return endings_of(runs, reading=lambda config: names[config.identity])


@styled
def figure(table: DataFrame) -> Figure:
    """A row per reading: the final losses of every run, and the steps at which its hops were learnt."""
    names = list(dict.fromkeys(table.reading))
    shown = picture(9.6, 0.7 + 0.34 * len(names))
    left, right = shown.subplots(1, 2, sharey=True)
    end = 1.05 * table.steps.max()
    for index, (hop, part) in enumerate(table.groupby("hop")):
        rows = [names.index(name) + 0.12 * (index - 0.5) for name in part.reading]
        left.plot(part.loss, rows, ls="", marker="o", ms=4, color=colour(index), alpha=0.8, label=str(hop))
        never = part.learnt.isna()
        for some, face in ((~never, colour(index)), (never, "none")):
            places = [row for row, there in zip(rows, some, strict=True) if there]
            steps = part.learnt.fillna(end)[some]
            right.plot(steps, places, ls="", marker="o", ms=4, mec=colour(index), mfc=face)
    left.set_yticks(range(len(names)), names)
    left.axvline(0.75, color=GREY, lw=0.8, ls="--", zorder=0)
    left.set(xlabel="validation loss, last 100 steps", ylim=(len(names) - 0.5, -0.5), xlim=(0, None))
    right.set(xlabel="step at which the hop was learnt (hollow: never)", xlim=(0, None))
    left.legend(loc="lower right")
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on which readings matter, and which do not."""
    whole = table.groupby(["reading", "run"], sort=False).solved.all()
    share = whole.groupby("reading", sort=False).mean()
    each = table[table.reading == "as we have it"]
    evidence, what = Evidence(each, "beyond (6, 7.1)"), "share of runs with both hops below 0.05"
    yield told(evidence, "default_is_learnt", share.get("as we have it", float("nan")), what, equals=1)
    deep = table[table.reading == "order deepest_first"]
    evidence = Evidence(deep, "beyond (3.1)", source="the paper's bound for not learnt")
    yield told(evidence, "order_decides", deep.loss, "final partial loss", above=0.7)
    first = table[(table.k == 1) & ~table.reading.str.startswith("order")]
    learnt = first.groupby("reading", sort=False).learnt.apply(lambda steps: steps.notna().mean())
    evidence = Evidence(first, "beyond (6, 7.1)", source="")
    yield told(evidence, "other_readings_learn", learnt, "share of runs whose first hop went below 0.5", above=0)
