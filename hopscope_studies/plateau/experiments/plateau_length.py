"""How the wait for one hop grows with the length of the sequence, without a prior (Musat et al., arXiv 2511.01033).

The sequel to the paper proves, for a simpler model and task, that the time until one induction head emerges is
quadratic in the length of the context. Here the same is asked of the paper's problem with one hop, under the recipe of
`hopscope demo`: RoPE's base, GPT-2's initial weights, learnt positions, 4 layers of one head, width 64, AdamW. The
length n = 3N grows with the number of chains N. A run ends once x1 is learnt. A run that has not learnt it by the last
step is censored.

**Prediction, committed before the first run.** The wait begins when answers are the mean of the candidates. Join w and
look-up u then grow as in `theory/two_factor.py`, each by the other.

- **Gradient flow.** Time goes as 1/(s p), with the pull s = 2(N − 1)/N² and the join's initial share p: the sequel's
  quadratic law in the limit. Under the causal mask fact i sees 2i positions, so p is the mean of 1/2i. From 12 to 72
  positions the power is then about 1.5.
- **AdamW** divides each gradient by its size. While nothing is learnt this is mostly noise, so a rate is the ratio of a
  gradient's mean to its standard deviation over batches. *Look-up:* per query the mean is p/n, for the row is uniform.
  The noise is n terms of size 1/n with random signs, n^-1/2, averaged over N queries: n^-1. So u goes as t p. *Join:*
  the mean is u p/n. The noise is what a position gathers at random, n^-1/2, over n positions of share 1/n, averaged
  over N queries: n^-3/2. So w goes as t² p² n^1/2. The head is there when e^w is 1/p: t goes as
  ln(1/p)^1/2 / (p n^1/4). In the limit that is a power of 3/4, and from 12 to 72 positions about 0.6.

We predict AdamW's law. Its derivation treats errors at different positions as independent, and lets all facts share one
join. Learnt positions do not share it: if the fact at each position is learnt separately, 1/N of the queries teach it,
and the power is higher by up to 0.5. If gradients are mostly signal, AdamW's rates do not depend on length, and the
power is lower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy
from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.configuration.presets import recipe
from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.experiments.curves import endings_of, first_below, hop_curves_of
from hopscope.experiments.judging import Claim, Evidence, around, bound
from hopscope.experiments.values import power_law
from hopscope.experiments.variants import TINY_MODEL, TINY_TRAINING
from hopscope.runs.run import Run
from hopscope_studies.plateau.conditions import SENTENCES
from hopscope_studies.plateau.theory.two_factor import Places, share, time_without_cost

#: Seconds that each scale takes on two cores; at `long` they are two core-hours if no run learns.
SECONDS = {"quick": 8, "cpu": 700, "long": 3600, "paper": 100_000}
CELL_SECONDS = 150

CHAINS = {"quick": (2, 4), "cpu": (4, 8, 16), "long": (4, 6, 8, 12, 16, 24), "paper": (4, 6, 8, 12, 16, 24, 32, 48)}
SEEDS = {"quick": 1, "cpu": 3, "long": 8, "paper": 8}
STEPS = {"cpu": 2500, "long": 2500, "paper": 20_000}
ENDS_BELOW = 0.45  # loss of x1; below this it is learnt at every N here
LEEWAY = 0.3  # tolerance of a predicted power


def runs(scale: str) -> Iterator[Config]:
    """Every length, seed by seed, so that a spent budget leaves seeds with all lengths."""
    for seed in range(SEEDS[scale]):
        yield from (one_hop(chains, seed, STEPS.get(scale)) for chains in CHAINS[scale])


def one_hop(chains: int, seed: int, steps: int | None) -> Config:
    """The demo's recipe with one hop and a constant rate, until x1 is learnt; without a number of steps, a tiny run."""
    demo = recipe("demo").config()
    whole: dict[str, Any] = {"steps": steps, "stop_below": ENDS_BELOW, "val_size": 1024, "checkpoints": "100000"}
    given = (whole if steps else TINY_TRAINING) | {"decay_steps": None, "schedule": "constant"}
    model = demo.model if steps else demo.model.but(**TINY_MODEL)
    return Config(demo.task.but(n_hops=1, n_chains=chains), model, demo.training.but(**given, seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run: when it reached the plateau, and how long it then took to learn.

    Columns: those of `waits`, chains, length.
    """
    return waits(
        runs, chains=lambda config: config.task.as_dict()["n_chains"], length=lambda config: config.task.n_positions
    )


def waits(runs: list[Run], **columns: Callable[[Config], Any]) -> DataFrame:
    """When the wait for each hop of each run began, and how long it was, one row per run and hop.

    Columns: those of `endings_of` (learnt is NaN if a hop was not learnt by the last step), reached (the step at which
    x1's loss is halfway from 1 to a guess, 1 − 1/N; for later hops, the step at which the hop before is learnt), wait
    (steps from there until the hop is learnt).
    """
    found = endings_of(runs, **columns)
    halfway = {run.config.identity: 1 - 0.5 / run.task.as_dict()["n_chains"] for run in runs}
    plateau = found.run.map(first_below(hop_curves_of(runs), halfway).xs("x1", level="hop"))
    found["reached"] = plateau.where(found.k == 1, found.groupby("run").learnt.shift()).round(1)
    found["wait"] = (found.learnt - found.reached).round(1)
    return found


def initial_share(length: int, hops: int = 1) -> float:
    """p: the share of uniform attention from a fact's value to its key, on average over facts of the first hop."""
    return float(share(0.0, Places.of(length // (2 * hops + 1), hops, "deepest_first").values))


def under_flow(length: int) -> float:
    """The two-factor model's time to escape, in units of its rates."""
    return time_without_cost(initial_share(length), length // 3, 1.0, 1.0)


def under_adam(length: int, hops: int = 1) -> float:
    """As `under_flow`, if noise limits the rates, up to a factor independent of length; for the first of the hops."""
    p = initial_share(length, hops)
    return math.sqrt(math.log(1 / p)) / (p * length**0.25)


@styled
def figure(table: DataFrame) -> Figure:
    """Left: the share of runs that have not learnt x1, by step. Right: the wait by length, and two predictions."""
    shown = picture(9.6, 3.6)
    left, right = shown.subplots(1, 2)
    end = float(table.steps.max())
    for index, (length, part) in enumerate(table.groupby("length")):
        left.ecdf(part.learnt.fillna(10 * end), complementary=True, color=colour(index), label=f"{length}")
    left.set(xlabel="optimizer steps", ylabel="share of runs that have not learnt x1", xscale="log", xlim=(1, end))
    left.legend(title="positions")
    right.scatter(table.length, table.wait, s=12, color=colour(0))
    lengths = sorted(table.length.unique())
    typical = numpy.log(table.groupby("length").wait.median()).mean()  # NaN: nothing to draw
    for name, dashes, law in (("AdamW", "--", under_adam), ("gradient flow", ":", under_flow)):
        times = numpy.array([law(length) for length in lengths])
        right.plot(lengths, times * numpy.exp(typical - numpy.log(times).mean()), dashes, color=GREY, label=name)
    right.set(xlabel="positions", ylabel="steps from plateau to x1", xscale="log", yscale="log", ylim=(1, end))
    right.set_xlim(0.8 * lengths[0], 1.25 * lengths[-1])
    right.legend()
    return shown


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims about whether x1 is learnt at all lengths, and which of the two laws its wait follows."""
    seeds = [part for _, part in table.groupby("seed")]
    powers = [power_law(part.length, part.wait.where(part.wait > 0))[1] for part in seeds]
    learnt = table.groupby("length").learnt.agg(lambda steps: steps.notna().mean())
    evidence, said = Evidence(table, "beyond (9.2)"), SENTENCES["plateau_length"]
    numbers = {"steps": table.steps.max(), "least": table.length.min(), "most": table.length.max()}
    sentence, what = said["every_length_learns"].format(**numbers), "share of runs that learn x1, by length"
    yield evidence.claim("every_length_learns", sentence, learnt, what, at_least=0.9)
    lengths, provided = sorted(table.length.unique()), bound(what, learnt, at_least=0.5)
    for id, law in (("the_wait_goes_as_under_adam", under_adam), ("the_wait_goes_as_under_flow", under_flow)):
        power = round(power_law(lengths, [law(length) for length in lengths])[1], 2)
        how: dict[str, Any] = {"n": len(powers), "of": "median", "within": around(power, LEEWAY), "provided": provided}
        sentence = said[id].format(power=power, leeway=LEEWAY)
        yield evidence.claim(id, sentence, powers, "power of the length, seed by seed", **how)
