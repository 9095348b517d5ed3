"""Is the implicit curriculum needed? D = 2 with and without it (Musat, ICLR 2025, section 7.2, at a smaller depth).

The paper's figure 4 (left) compares D = 5 with and D = 3 without curriculum over 1 to 8 layers. This is its core at a
size that two cores train in minutes: the same D = 2, the same model, nearest facts first, curriculum the only change.
"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.drawing.curves import compared_curves
from hopscope.experiments.base import Claim, final, first_below, hop_curves_of, verdict
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 400, "paper": 1500}
CLAIMS = ("no_curriculum_fails", "curriculum_succeeds", "hops_in_order")

SETTINGS = {
    "quick": (Architecture(n_layers=2, d_model=16), Training(steps=20, batch=16, log_every=5, val_size=32), 1),
    "cpu": (Architecture(), Training(steps=1000, dtype="bfloat16", checkpoints="500"), 3),
    "paper": (Architecture(n_heads=8, n_layers=8), Training(steps=10_000, batch=512, checkpoints="2000"), 8),
}


def runs(scale: str) -> Iterator[Config]:
    """With and without curriculum, over seeds."""
    model, training, n_seeds = SETTINGS[scale]
    for curriculum in ("implicit", "none"):
        for seed in range(n_seeds):
            yield Config(Retrieval(n_hops=2, curriculum=curriculum), model, training.but(seed=seed))


def table(runs: list[Run]) -> DataFrame:
    """Every hop's validation loss over training."""
    return hop_curves_of(runs, curriculum=lambda config: config.task.as_dict()["curriculum"])


def figure(table: DataFrame) -> Figure:
    """One panel with, one without curriculum; a line per seed and hop."""
    return compared_curves(table, by="curriculum", baselines=Retrieval(n_hops=2).baselines)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Section 7.2's three results, judged at D = 2."""
    without, taught = table[table.curriculum == "none"], table[table.curriculum == "implicit"]
    ends = final(without)
    yield Claim(
        "no_curriculum_fails",
        "7.2",
        "Without implicit curriculum every run ends with a validation loss above 0.7 (paper: D = 3; here D = 2).",
        number=ends.min(),
        spread=(ends.min(), ends.max()),
        n=len(ends),
        seeds=tuple(sorted(without.seed.unique().tolist())),
        threshold="lowest final loss > 0.7 (paper)",
        verdict=verdict(bool((ends > 0.7).all())),
    )
    solved = final(taught)
    yield Claim(
        "curriculum_succeeds",
        "7.2",
        "With implicit curriculum the same model, trained as long, solves every hop, in every run.",
        number=solved.max(),
        spread=(solved.min(), solved.max()),
        n=solved.index.get_level_values("run").nunique(),
        seeds=tuple(sorted(taught.seed.unique().tolist())),
        threshold="highest final partial loss < 0.05 (ours)",
        verdict=verdict(bool((solved < 0.05).all())),
    )
    learnt = first_below(taught, 0.5).unstack("hop")
    lag = learnt["x2"] - learnt["x1"]
    yield Claim(
        "hops_in_order",
        "7.2",
        "With implicit curriculum the partial loss of x1 goes below 0.5 before that of x2, in every run "
        f"(in {int(learnt.x2.isna().sum())} of {len(learnt)} that of x2 had not yet when training ended).",
        number=lag.median(),
        spread=(lag.min(), lag.max()),
        n=max(1, int(lag.notna().sum())),
        seeds=tuple(sorted(taught.seed.unique().tolist())),
        threshold="steps from x1 to x2 > 0 in all runs (paper); a run that ends before x2 is no counterexample",
        verdict=verdict(bool(((lag > 0) | learnt.x2.isna()).all())) if learnt.x1.notna().all() else "undecided",
    )
