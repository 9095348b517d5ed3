"""Does one path speed up another? Paths are held ideal, or knocked out, from the start (beyond Musat, section 9.2).

The paper finds that heads emerge one after the other. Curves cannot show whether a later head *needs* the earlier one.
An intervention can: provide the earlier head from the start, or remove it, and measure when each hop is learnt (Singh
et al., 2024, clamp induction subcircuits in this way). The model is the packaged run's, with D = 2 and nearest facts
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame, Series

from hopscope.configuration.config import Config, Training
from hopscope.drawing.curves import compared_curves
from hopscope.experiments.curves import first_below, hop_curves_of
from hopscope.experiments.judging import Claim, Evidence, Limit, bound
from hopscope.experiments.variants import EARLIER
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.one_setting import TWO_HOPS
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 560, "paper": 2000}

FACTS = ("L0H0 value[1]->key[1]", "L0H0 value[2]->key[2]")
#: The clamps, by name.
CLAMPS = {
    "nothing": "",
    "facts whole": ";".join(f"{path} ideal@0" for path in FACTS),
    "facts not in layer 0": ";".join(f"{path} off@0" for path in FACTS),
    "first hop ready": "L1H0 query->value[1] ideal@0",
    "second hop ready": "L2H0 query->value[2] ideal@0",
}

SETTINGS = {
    "quick": (EARLIER.but(n_layers=3, d_model=16), Training(steps=10, batch=8, log_every=5, val_size=16), 1),
    "cpu": (EARLIER, Training(steps=500, dtype="bfloat16", checkpoints="500"), 3),
    "paper": (EARLIER, Training(steps=2000, checkpoints="500"), 8),
}

told = telling("clamp_grid")


def runs(scale: str) -> Iterator[Config]:
    """Every clamp, over seeds."""
    model, training, n_seeds = SETTINGS[scale]
    for clamps in CLAMPS.values():
        for seed in range(n_seeds):
            yield Config(TWO_HOPS, model, training.but(seed=seed, clamps=clamps))


def clamp_of(config: Config) -> str:
    """The name of a run's clamps."""
    named = {Training(clamps=clamps).clamps: name for name, clamps in CLAMPS.items()}
    return named[config.training.clamps]


def table(runs: list[Run], scale: str) -> DataFrame:
    """Every hop's validation loss over training, with the clamps applied."""
    return hop_curves_of(runs, clamp=clamp_of)


def figure(table: DataFrame) -> Figure:
    """A panel per clamp; a line per seed and hop."""
    return compared_curves(table, by="clamp", baselines=TWO_HOPS.baselines)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on how much sooner (or later) each hop is learnt than without clamps, seed by seed."""
    free = learnt(table, "nothing")
    for clamp, hop in (
        ("facts whole", "x1"),
        ("first hop ready", "x2"),
        ("second hop ready", "x1"),
        ("facts not in layer 0", "x1"),
    ):
        yield speed(free[hop], learnt(table, clamp)[hop], clamp, hop, table)


def learnt(table: DataFrame, clamp: str) -> DataFrame:
    """The step at which each hop's loss falls below 0.5, by seed; infinite if it does not in training."""
    return first_below(table[table.clamp == clamp], 0.5, by="seed").unstack("hop").fillna(math.inf)


def speed(free: Series, held: Series, clamp: str, hop: str, table: DataFrame) -> Claim:
    """Compare one clamp with none: the ratio of the times, and whether every seed has the claimed direction.

    A hop that is learnt only with the clamp counts as sooner, with an unknown ratio.
    """
    both = free.index.intersection(held.index)
    pairs = [(free[seed], held[seed]) for seed in both if math.isfinite(free[seed]) or math.isfinite(held[seed])]
    sides = [after / before if math.isfinite(before) else -math.inf for before, after in pairs]
    ratios = [ratio for ratio in sides if ratio > -math.inf]
    limit: Limit = {"unanimous": True, "above": 1} if clamp.startswith("facts not") else {"unanimous": True, "below": 1}
    words = f"ratio of steps until {hop} < 0.5 to those without clamp"
    id, also = f"{clamp.replace(' ', '_')}_{hop}", [bound(words, sides, **limit)]
    evidence = Evidence(table[table.seed.isin(both)], "beyond (9.2)")
    return told(evidence, id, ratios, "ratio", n=len(ratios), number="median", also=also)
