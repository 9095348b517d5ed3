"""Is the implicit curriculum needed? D = 2 with and without it (Musat, ICLR 2025, section 7.2, at a smaller depth).

The paper's figure 4 (left) compares D = 5 with and D = 3 without curriculum over 1 to 8 layers. This is the comparison
at a size that two cores train in minutes: D = 2, nearest facts first, with the curriculum as the only change.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.drawing.curves import compared_curves
from hopscope.experiments.curves import final, first_below, hop_curves_of
from hopscope.experiments.judging import Claim, Evidence, bound
from hopscope.experiments.values import lags
from hopscope.experiments.variants import EARLIER
from hopscope.runs.run import Run
from hopscope_studies.stacked_heads.one_setting import TWO_HOPS, columns
from hopscope_studies.stacked_heads.telling import telling

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 400, "paper": 1500}

SETTINGS = {
    "quick": (EARLIER.but(n_layers=2, d_model=16), Training(steps=20, batch=16, log_every=5, val_size=32), 1),
    "cpu": (EARLIER, Training(steps=1000, dtype="bfloat16", checkpoints="500"), 3),
    "paper": (EARLIER.but(n_heads=8, n_layers=8), Training(steps=10_000, batch=512, checkpoints="2000"), 8),
}
told = telling("curriculum")


def runs(scale: str) -> Iterator[Config]:
    """With and without curriculum, over seeds."""
    model, training, n_seeds = SETTINGS[scale]
    for curriculum in ("implicit", "none"):
        for seed in range(n_seeds):
            yield Config(TWO_HOPS.but(curriculum=curriculum), model, training.but(seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """Every hop's validation loss over training."""
    return hop_curves_of(runs, **columns("curriculum"))


def figure(table: DataFrame) -> Figure:
    """One panel with, one without curriculum; a line per seed and hop."""
    return compared_curves(table, by="curriculum", baselines=TWO_HOPS.baselines)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Claims on section 7.2's three results, at D = 2."""
    without, taught = table[table.curriculum == "none"], table[table.curriculum == "implicit"]
    yield told(Evidence(without, "7.2", source="paper"), "no_curriculum_fails", final(without), "final loss", above=0.7)
    yield told(Evidence(taught, "7.2"), "curriculum_succeeds", final(taught), "final partial loss", below=0.05)
    learnt = first_below(taught, 0.5).unstack("hop")
    waits = lags(zip(learnt.x1, learnt.x2, strict=True))
    evidence, what = Evidence(taught, "7.2", source="paper"), "number of steps from x1 to x2"
    said = {"never": int(learnt.x2.isna().sum()), "all": len(learnt)}
    provided = bound("runs that learn x1", learnt.x1.notna(), of="share of", equals=1)
    yield told(
        evidence, "hops_in_order", waits, what, n=len(waits), number="median", above=0, provided=provided, said=said
    )
