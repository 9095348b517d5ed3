"""Does one path speed up another? Paths held ideal, or knocked out, from the first step on (beyond Musat, section 9.2).

The paper finds that heads emerge one after the other. Whether the earlier one is *needed* by the later one cannot be
seen in curves; it can be tried: give the model the earlier one for nothing, or take it away, and look when each hop is
learnt (Singh et al., 2024, clamp induction subcircuits so). D = 2, the demo's model, nearest facts first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config, Training
from hopscope.drawing.curves import compared_curves
from hopscope.experiments.base import Claim, first_below, hop_curves_of
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 560, "paper": 2000}
CLAIMS = ("facts_whole_x1", "first_hop_ready_x2", "second_hop_ready_x1", "facts_not_in_layer_0_x1")

FACTS = ("L0H0 value[1]->key[1]", "L0H0 value[2]->key[2]")
#: What is done to attention, by name.
CLAMPS = {
    "nothing": "",
    "facts whole": ";".join(f"{path} ideal@0" for path in FACTS),
    "facts not in layer 0": ";".join(f"{path} off@0" for path in FACTS),
    "first hop ready": "L1H0 query->value[1] ideal@0",
    "second hop ready": "L2H0 query->value[2] ideal@0",
}

SETTINGS = {
    "quick": (Architecture(n_layers=3, d_model=16), Training(steps=10, batch=8, log_every=5, val_size=16), 1),
    "cpu": (Architecture(), Training(steps=500, dtype="bfloat16", checkpoints="500"), 3),
    "paper": (Architecture(), Training(steps=2000, checkpoints="500"), 8),
}


def runs(scale: str) -> Iterator[Config]:
    """Every clamp, over seeds."""
    model, training, n_seeds = SETTINGS[scale]
    for clamps in CLAMPS.values():
        for seed in range(n_seeds):
            yield Config(Retrieval(n_hops=2), model, training.but(seed=seed, clamps=clamps))


def clamp_of(config: Config) -> str:
    """The name of what is done to attention."""
    named = {Training(clamps=clamps).clamps: name for name, clamps in CLAMPS.items()}
    return named[config.training.clamps]


def table(runs: list[Run]) -> DataFrame:
    """Every hop's validation loss over training, clamps in force."""
    return hop_curves_of(runs, clamp=clamp_of)


def figure(table: DataFrame) -> Figure:
    """A panel per clamp; a line per seed and hop."""
    return compared_curves(table, by="clamp", baselines=Retrieval(n_hops=2).baselines)


def claims(table: DataFrame) -> Iterator[Claim]:
    """How much sooner (or later) each hop is learnt than without clamps, seed by seed."""
    free = learnt(table, "nothing")
    for clamp, hop, sentence in (
        ("facts whole", "x1", "With facts made whole for nothing, the first hop is learnt sooner."),
        ("first hop ready", "x2", "With the first hop ready, the second is learnt sooner."),
        ("second hop ready", "x1", "With the second hop ready, the first is learnt sooner."),
        ("facts not in layer 0", "x1", "Without whole facts in layer 0 the first hop is learnt later, or not at all."),
    ):
        sooner = not clamp.startswith("facts not")
        yield speed(free[hop], learnt(table, clamp)[hop], clamp, hop, sentence, sooner, table)


def learnt(table: DataFrame, clamp: str) -> DataFrame:
    """The step at which each hop goes below 0.5, by seed; infinite where it had not when training ended."""
    part = table[table.clamp == clamp]
    seeds = part.groupby("run").seed.first()
    steps = first_below(part, 0.5).unstack("hop").fillna(math.inf)
    steps.index = seeds[steps.index]
    return steps


def speed(free: Series, held: Series, clamp: str, hop: str, sentence: str, sooner: bool, table: DataFrame) -> Claim:
    """One clamp against none: the ratio of the times, and in how many seeds it has the sign that is claimed."""
    both = free.index.intersection(held.index)
    pairs = [(free[seed], held[seed]) for seed in both if math.isfinite(free[seed]) or math.isfinite(held[seed])]
    ratios = sorted(after / before for before, after in pairs if math.isfinite(before))
    agree = sum((after < before) == sooner and after != before for before, after in pairs)
    settled = bool(pairs) and agree in (0, len(pairs))
    return Claim(
        f"{clamp.replace(' ', '_')}_{hop}",
        "beyond (9.2)",
        sentence,
        number=median(ratios) if ratios else math.nan,
        spread=(ratios[0], ratios[-1]) if ratios else (math.nan, math.nan),
        n=max(1, len(ratios)),
        seeds=tuple(int(seed) for seed in sorted(both)),
        threshold=f"steps until {hop} < 0.5, over those without clamp: {'<' if sooner else '>'} 1 in every seed (ours)",
        verdict=("holds" if agree else "fails") if settled else "undecided",
    )
