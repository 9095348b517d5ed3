"""Is a trained linear self-attention layer a step of gradient descent? (von Oswald et al., 2023, sections 3 and 4)

Linear regression in context, arXiv:2212.07677. One layer is compared with one step at the best rate, in closed form: by
its loss, its answers and their sensitivities, its weights, on inputs and weights of other sizes, and applied
repeatedly. Two layers, with shared or separate weights, are compared with two steps of gradient descent and of GD++.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.experiments.tables import rows_of
from hopscope.runs.run import Run
from hopscope_studies.gradient_descent.claims import claims as claims
from hopscope_studies.gradient_descent.comparison import course_rows, one_layer_rows, several_layers_rows
from hopscope_studies.gradient_descent.figure import figure as figure
from hopscope_studies.gradient_descent.models.linear_self_attention import LinearSelfAttentionShape
from hopscope_studies.gradient_descent.tasks.linear_regression import LinearRegression

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 8, "cpu": 150, "paper": 1500}

#: The paper's sizes, which are those of every scale.
TASK = LinearRegression()
#: By the name of a system: its shape.
SYSTEMS = {
    "one layer": LinearSelfAttentionShape(n_layers=1),
    "two layers, looped": LinearSelfAttentionShape(n_layers=2, looped=True),
    "two layers": LinearSelfAttentionShape(n_layers=2),
}
#: At the higher rate, from the published initial weights, one seed of five stays on a plateau. So these start larger.
LARGER = ("one layer", "two layers, looped")
#: Adam at a higher rate with a decay, which saves most of the published steps.
FAST = Training(lr=1e-2, warmup=50, schedule="cosine", weight_decay=0.0, log_every=50, checkpoints="1000000")
PUBLISHED = Training(lr=1e-3, batch=2048, clip=1e-3, weight_decay=0.0, log_every=50, checkpoints="1000000")
TRAININGS: dict[str, dict[str, Training]] = {
    "quick": {name: FAST.but(steps=200, batch=64, val_size=64) for name in SYSTEMS},
    "cpu": {
        "one layer": FAST.but(steps=2000, batch=512, clip=1e-3),
        "two layers, looped": FAST.but(steps=4000, batch=256, clip=1e-3),
        "two layers": FAST.but(steps=4000, batch=256),
    },
    "paper": {
        "one layer": PUBLISHED.but(steps=5000),
        "two layers, looped": PUBLISHED.but(steps=20_000),
        "two layers": PUBLISHED.but(steps=20_000, clip=None),
    },
}
SEEDS = {"quick": 1, "cpu": 5, "paper": 5}
#: Fresh sequences of every comparison; the paper's number of test tasks.
SIZE = {"quick": 500, "cpu": 10_000, "paper": 10_000}


def runs(scale: str) -> Iterator[Config]:
    """Every system over seeds; and one layer as it is drawn, untrained."""
    for name, shape in SYSTEMS.items():
        start = shape.but(init_variance=0.002) if name in LARGER and scale != "paper" else shape
        for seed in range(SEEDS[scale]):
            yield Config(TASK, start, TRAININGS[scale][name].but(seed=seed))
    for seed in range(SEEDS[scale]):
        untrained = FAST.but(steps=0, warmup=0, seed=seed)
        yield Config(TASK, SYSTEMS["one layer"], untrained)


def table(runs: list[Run], scale: str) -> DataFrame:
    """A row per run and quantity, its own beside gradient descent's; and validation losses over training."""
    return rows_of(runs, lambda run: numbers(run, SIZE[scale]))


def numbers(run: Run, size: int) -> Iterator[dict[str, Any]]:
    """The rows of one run."""
    compare = one_layer_rows if run.config.model.n_layers == 1 else several_layers_rows
    for row in (*compare(run, size), *course_rows(run)):
        yield {"system": system_of(run.config), **row}


def system_of(config: Config) -> str:
    """What a run is called in tables."""
    if not config.training.steps:
        return "untrained"
    plain = config.model.but(init_variance=None)
    return next(name for name, shape in SYSTEMS.items() if shape == plain)
