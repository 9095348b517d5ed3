"""Is parity learnt by a recurrent network? (ours; the task is that of Liu et al., 2023, section 2, at a small size.)"""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from pandas import DataFrame

from hopscope import Config, Run, Training
from hopscope.drawing.curves import compared_curves
from hopscope.experiments.curves import final, hop_curves_of
from hopscope.experiments.judging import Claim, Evidence

from ....models.elman import Elman
from ....tasks.running_sum import RunningSum

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 2, "cpu": 40, "paper": 40}

TASK = RunningSum(length=8)
SETTINGS = {
    "quick": (Training(steps=10, batch=16, val_size=32, log_every=5), 1),
    "cpu": (Training(steps=1000, lr=1e-2, weight_decay=0.0, checkpoints="1000"), 3),
    "paper": (Training(steps=1000, lr=1e-2, weight_decay=0.0, checkpoints="1000"), 3),
}


def runs(scale: str) -> Iterator[Config]:
    """One network, over seeds."""
    training, n_seeds = SETTINGS[scale]
    for seed in range(n_seeds):
        yield Config(TASK, Elman(width=16), training.but(seed=seed))


def table(runs: list[Run], scale: str) -> DataFrame:
    """The validation loss over training."""
    return hop_curves_of(runs, width=lambda config: config.model.as_dict()["width"])


def figure(table: DataFrame) -> Figure:
    """A line per seed."""
    return compared_curves(table, by="width", baselines=TASK.baselines)


def claims(table: DataFrame) -> Iterator[Claim]:
    """Judged from the table alone."""
    yield Evidence(table, "ours").claim(
        "parity_is_learnt",
        "The network ends below a tenth of the loss of guessing, in every run.",
        final(table) / TASK.chance,
        "final loss, as a part of that of guessing",
        below=0.1,
    )
