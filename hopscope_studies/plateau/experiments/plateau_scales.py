"""How the waits scale with batch, base, depth, width and number of chains, without a prior (Musat, section 9.2).

`plateau_length` predicts how the wait for one hop grows with length. Here the same two factors, a join w and a look-up
u (`theory/two_factor.py`), predict five more scales. The recipe is that of `hopscope demo`: base 10,000, GPT-2's
initial weights, learnt positions, 4 layers of one head, width 64, AdamW at a constant rate, batches of 128. One hop is
asked, of 8 chains. One setting is changed at a time. A run ends once its hops are learnt. A hop that is not learnt by
the last step is censored.

**Predictions, committed before the first run.** AdamW divides each gradient by its size. On the plateau that is mostly
noise, so a rate is the ratio of a gradient's mean to its standard deviation: u grows as t, and w as u t, so as t². The
head is there when w has reached a fixed score.

- **Batch B.** The standard deviation of a mean over B sequences goes as B^-1/2. Both rates gain B^1/2, so w goes as
  B t² and the wait as **B^-1/2**. In sequences seen it grows, as B^1/2.
- **Base.** Of the code's two frequencies the second is base^-1/2. With base 10,000 it hardly turns within 24
  positions, so only the first distinguishes neighbours, and it mistakes 6 positions back for nearly none. `contrast` is
  the score that a step of AdamW on W_Q W_K gives to the previous token, above that of the others. The wait goes as
  contrast^-1/2. That is 1.3 times as long at base 10^6 as at base 10: a power of 0.03, and not of 0. Learnt positions
  would add a code of their own, so these runs have none.
- **Depth L.** Every layer after the join's adds to the look-up, and each gradient of the join is the sum over them. So
  u goes as (L − 1) t, w as (L − 1) t², and the wait as **(L − 1)^-1/2**.
- **Width d**, of the stream and of the head. AdamW moves every weight alike, so a score grows as d² t: d terms for the
  query, d for its product with the key. The join's gradient is u ~ d² t against a noise of the initial scores ~ d. So
  w goes as d³ t², and the wait as **d^-3/2**.
- **From hop to hop** (two hops, by number of chains). For x1 p is the share at step 1, whose facts come last: the law
  of `plateau_length` with that p. For x2 the join is there, p = 1, and a single factor is left: its mean and its noise
  are both 1/n, so it grows at a rate without n, to a score of ln n. **The wait from x1 to x2 goes as ln n.**
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.judging import Claim, Evidence, around, bound
from hopscope.experiments.values import power_law
from hopscope.runs.run import Run
from hopscope_studies.plateau.experiments.plateau_length import one_hop, under_adam, waits

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 600, "long": 6000, "paper": 12_000}
CELL_SECONDS = 200

SEEDS = {"quick": 1, "cpu": 2, "long": 8, "paper": 16}
STEPS, CHAINS = 4000, 8
WORDS = {"batch": "batch size", "base": "position code's base"}  # in sentences


def contrast(base: float) -> float:
    """What a step of AdamW on W_Q W_K adds to a fact's score of its key, above the mean of what it sees.

    Each of the 4 × 4 products of code components moves by its gradient's mean over its standard deviation. The mean
    over facts is of a join under uniform attention. The noise is what a row of n positions gathers at random.
    """
    turns = numpy.outer(numpy.arange(2 * CHAINS), base ** -numpy.array([0.0, 0.5]))
    code = numpy.concatenate([numpy.cos(turns), numpy.sin(turns)], 1)
    rows = [(code[i], code[i - 1] - code[: i + 1].mean(0), code[: i + 1].var(0), i + 1) for i in range(1, len(code), 2)]
    mean = sum(numpy.outer(own, gained) / n for own, gained, _, n in rows)
    noise = numpy.sqrt(sum(numpy.outer(own**2, spread) / n for own, _, spread, n in rows))
    return float(sum((numpy.outer(own, gained) * mean / (noise + 1e-9)).sum() for own, gained, _, _ in rows))


class Scale(NamedTuple):
    """One setting that is changed.

    Attributes:
        name: the setting in words.
        setting: the part of a configuration, and the setting in it.
        values: the values tried.
        law: the predicted wait, up to a factor.
        leeway: the tolerance of the predicted power.
        hop: the hop whose wait is predicted.
        always: the differences of all runs of this scale from the demo's recipe with one hop.
    """

    name: str
    setting: tuple[str, str]
    values: tuple[float, ...]
    law: Callable[[float], float]
    leeway: float = 0.25
    hop: str = "x1"
    always: tuple[tuple[str, str, Any], ...] = ()

    @property
    def power(self) -> float:
        """The predicted power over the values."""
        return round(power_law(self.values, [self.law(value) for value in self.values])[1], 2)

    def config(self, value: float, seed: int, steps: int | None) -> Config:
        """The run at one value."""
        config = one_hop(CHAINS, seed, steps)
        for part, setting, given in (*self.always, (*self.setting, value)):
            config = replace(config, **{part: getattr(config, part).but(**{setting: given})})
        return config


by_chains = partial(
    Scale, "number of chains", ("task", "n_chains"), (4, 6, 8, 12, 16), leeway=0.3, always=(("task", "n_hops", 2),)
)
SCALES = (
    Scale("batch", ("training", "batch"), (16, 32, 64, 128, 256, 512), lambda batch: batch**-0.5),
    Scale(
        "base",
        ("task", "position_base"),
        (10.0, 100.0, 1e3, 1e4, 1e6),
        lambda base: contrast(base) ** -0.5,
        leeway=0.025,
        always=(("model", "positions", "input"),),
    ),
    Scale("number of layers", ("model", "n_layers"), (2, 3, 4, 6, 8, 12), lambda layers: (layers - 1) ** -0.5),
    Scale("width", ("model", "d_model"), (32, 48, 64, 96, 128, 192), lambda width: width**-1.5, leeway=0.5),
    by_chains(law=lambda chains: under_adam(int(5 * chains), 2)),
    by_chains(law=lambda chains: math.log(5 * chains), hop="x2"),
)


def cells(scale: str) -> Iterator[tuple[Scale, float, Config]]:
    """Every value of every scale, seed by seed."""
    for seed in range(SEEDS[scale]):
        for changed in SCALES:
            for value in changed.values[:2] if scale == "quick" else changed.values:
                yield changed, value, changed.config(value, seed, None if scale == "quick" else STEPS)


def runs(scale: str) -> Iterator[Config]:
    """Each run once, because the recipe itself belongs to several scales."""
    yield from {config.identity: config for _, _, config in cells(scale)}.values()


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per scale and run: the wait for the scale's hop.

    Columns: changed (what), value (to what), and those of `plateau_length.waits`.
    """
    named = DataFrame(
        [(changed.name, value, config.identity, changed.hop) for changed, value, config in cells(scale)],
        columns=["changed", "value", "run", "hop"],
    )
    return named.merge(waits(runs), on=["run", "hop"])


@styled
def figure(table: DataFrame) -> Figure:
    """The wait of every run by each setting, and the predicted power through the middle of the medians."""
    shown = picture(9.6, 6.0)
    for ax, scale in zip(shown.subplots(2, 3).flat, SCALES, strict=True):
        rows = table[(table.changed == scale.name) & (table.hop == scale.hop)]
        ax.scatter(rows.value, rows.wait, s=12, color=colour(0))
        values = numpy.array(sorted(rows.value.unique()))
        law = numpy.array([scale.law(value) for value in values])
        middle = numpy.log(rows.groupby("value").wait.median() / law).mean()  # NaN: nothing to draw
        ax.plot(values, law * numpy.exp(middle), "--", color=GREY)
        ax.set(xlabel=scale.name, xscale="log", yscale="log", ylim=(10, STEPS), ylabel=f"steps waited for {scale.hop}")
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.set_xticks([], minor=True)
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """The claims that the predicted power holds, one for each setting."""
    for scale in SCALES:
        rows = table[(table.changed == scale.name) & (table.hop == scale.hop)]
        powers = [power_law(part.value, part.wait.where(part.wait > 0))[1] for _, part in rows.groupby("seed")]
        learnt = rows.groupby("value").learnt.agg(lambda steps: steps.notna().mean())
        yield Evidence(rows, "beyond (9.2)", among=table).claim(
            f"wait_for_{scale.hop}_by_{scale.name.replace(' ', '_')}",
            f"The number of steps from {'the plateau' if scale.hop == 'x1' else 'learning x1'} to learning {scale.hop} "
            f"scales as the {WORDS.get(scale.name, scale.name)} to the power of {scale.power:g} ± {scale.leeway:g}.",
            powers,
            f"power of the {scale.name}, seed by seed",
            n=len(powers),
            of="median",
            within=around(scale.power, scale.leeway),
            provided=bound("share of runs that learn the hop, by value", learnt, at_least=0.5),
        )
