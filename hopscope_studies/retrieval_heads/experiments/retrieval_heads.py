"""Retrieval heads: how few, when they fire, what masking costs (Wu et al., 2024, arXiv:2404.15574, sections 2 to 4).

SmolLM2-135M is asked for needles in our own hay, with the answer given (forced) and with its own answer (free). A
hand-set model has one head with a score of 1, and an untrained one has none. Small models that copy are scored in the
same way. The results are compared with counts of the scores that the authors released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.experiments.reports import Row, row, table_of
from hopscope.experiments.work import Finished, Work
from hopscope.measures.base import observe
from hopscope.models.base import Model
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.retrieval_heads.claims import claims as claims
from hopscope_studies.retrieval_heads.figure import figure as figure
from hopscope_studies.retrieval_heads.measured import Needles, Published
from hopscope_studies.retrieval_heads.toys import drawn, toy_scores

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 3, "cpu": 600, "paper": 7200}
SEEDS = {"quick": 2, "cpu": 2, "paper": 8}
FULL = {"quick": 1, "cpu": 1, "paper": 8}  # seeds with all measurements; others have scores alone
COUNT = {"quick": 4, "cpu": 10, "paper": 32}
MODELS = {"quick": ("made_up",), "cpu": ("smollm2",), "paper": ("smollm2", "gemma3-270m")}
TOYS = {"quick": 1, "cpu": 5, "paper": 8}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 16, "log_every": 10, "val_size": 32, "checkpoints": "10"},
    "cpu": {"steps": 2000, "batch": 64, "log_every": 50, "val_size": 256, "checkpoints": "50"},
}
TRAININGS["paper"] = TRAININGS["cpu"]
SEQUENCES = {"quick": 32, "cpu": 512, "paper": 512}


def runs(scale: str) -> Iterator[Work | Config]:
    """The runs of SmolLM2; at `paper` also of Gemma."""
    yield from asked(MODELS[scale], scale)


def asked(models: tuple[str, ...], scale: str) -> Iterator[Work | Config]:
    """Language models, the two controls, small models that copy, and the authors' counts."""
    quick, count = scale == "quick", COUNT[scale]
    for model in models:
        for seed in range(SEEDS[scale]):
            yield Needles(model, count=count, seed=seed, brief=seed >= FULL[scale])
    yield Needles(models[0], trained=False, count=4, brief=True)
    yield Needles("made_up_by_hand" if quick else "by_hand", count=4, seed=SEEDS[scale], brief=True)
    yield from (toy(scale, seed) for seed in range(TOYS[scale]))
    yield Published()


def toy(scale: str, seed: int) -> Config:
    """Two layers of attention that learn to continue a repeated segment, as in `composition`."""
    shape = Architecture(n_layers=2, d_model=32, mlp=False, positions="rotary", init="early_layers")
    training = Training(**TRAININGS[scale], lr=3e-3, weight_decay=5e-4, beta2=0.98, seed=seed)
    return Config(RepeatedSegment(), shape, training)


def table(runs: list[Finished | Run], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, model, part, kind, name, other, step, value, low, high. `part` is the purpose of a run:
    language, untrained, by hand, toy, untrained toy, published.
    """
    return table_of(runs, lambda run: of_a_toy(run, SEQUENCES[scale]))


def of_a_toy(run: Run, n: int) -> Iterator[Row]:
    """The scores of a small model's heads after and before training, and its errors."""
    for part, model in (("toy", run.at(run.steps[-1])), ("untrained toy", run.at(0))):
        yield from ({"model": "two layers", "part": part, **one} for one in scored(model, run, n))


def scored(model: Model, run: Run, n: int) -> Iterator[Row]:
    """The scores and the error on fresh sequences."""
    task = run.config.task
    assert isinstance(task, RepeatedSegment)
    batch = drawn(task, n)
    seen = observe(model, batch)
    yield row("error", "second copy", 1 - float(task.correct(seen.outputs, batch).float().mean()))
    yield from (row("forced", name, value) for name, value in toy_scores(seen).items())
