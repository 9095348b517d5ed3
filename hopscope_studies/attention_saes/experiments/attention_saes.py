"""Sparse features of attention outputs, and long-prefix induction heads (Kissane et al., 2024, arXiv:2406.17759).

Autoencoders are trained on outputs whose features are known (a hand-set layer, small trained models), then on layer 18
of SmolLM2-135M. Its induction heads are classified by the prefix that they need, and cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.experiments.reports import Row, row, table_of
from hopscope.experiments.work import Finished, Work
from hopscope.measures.base import observe
from hopscope.models.transformer import Architecture
from hopscope.probes.sparse_autoencoder import SparseTraining
from hopscope.runs.run import Run
from hopscope.tasks.repeated_segment import RepeatedSegment
from hopscope_studies.attention_saes.claims import claims as claims
from hopscope_studies.attention_saes.figure import figure as figure
from hopscope_studies.attention_saes.known import toy_report
from hopscope_studies.attention_saes.measured import Known, Layer, Prefixes
from hopscope_studies.attention_saes.reading import known

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 480, "paper": 7200}
MODELS = {"quick": ("made_up",), "cpu": ("smollm2",), "paper": ("smollm2", "gemma3-270m")}
SEEDS = {"quick": 1, "cpu": 2, "paper": 8}  # of prefixes and of known directions; there is one more toy
FULL = {"quick": 1, "cpu": 1, "paper": 8}  # seeds in which heads are cut
LAYERS = {"quick": 1, "cpu": 1, "paper": 2}  # autoencoders of a language model's layer
SIZES: dict[str, dict[str, Any]] = {  # of these
    "quick": {"train": 4, "held": 2, "steps": 1},
    "cpu": {},
    "paper": {"train": 480, "held": 96, "expansion": 8.0, "steps": 20_000},
}
KNOWN: dict[str, dict[str, Any]] = {"quick": {"sequences": 64, "steps": 20}, "cpu": {}, "paper": {"steps": 20_000}}
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 16, "log_every": 10, "val_size": 32, "checkpoints": "10"},
    "cpu": {"steps": 2000, "batch": 64, "log_every": 50, "val_size": 256, "checkpoints": "50"},
}
TRAININGS["paper"] = TRAININGS["cpu"]
TOY_SAE = {"quick": SparseTraining(steps=20), "cpu": SparseTraining(), "paper": SparseTraining(steps=20_000)}
SEQUENCES = {"quick": 64, "cpu": 4096, "paper": 4096}  # of which a toy's outputs are read


def runs(scale: str) -> Iterator[Work | Config]:
    """The hand-set layer, small models that copy, a language model's heads and one layer, and an untrained model."""
    for seed in range(SEEDS[scale]):
        yield Known(seed, **KNOWN[scale])
    yield from (toy(scale, seed) for seed in range(SEEDS[scale] + 1))
    for model in MODELS[scale]:
        for seed in range(SEEDS[scale]):
            yield Prefixes(model, seed=seed, brief=seed >= FULL[scale])
    for seed in range(LAYERS[scale]):
        yield Layer(MODELS[scale][0], seed=seed, **SIZES[scale])
    yield Prefixes(MODELS[scale][0], trained=False, count=16, brief=True)


def toy(scale: str, seed: int) -> Config:
    """Two layers of attention that learn to continue a repeated segment; those of `composition`."""
    shape = Architecture(n_layers=2, d_model=32, mlp=False, positions="rotary", init="early_layers")
    training = Training(**TRAININGS[scale], lr=3e-3, weight_decay=5e-4, beta2=0.98, seed=seed)
    return Config(RepeatedSegment(), shape, training)


def table(runs: list[Finished | Run], scale: str) -> DataFrame:
    """A row per number.

    Columns: run, version, seed, model, part, kind, name, other, step, value, low, high. `part` says what a run is for:
    by hand, toy, layer, language, untrained.
    """
    return table_of(runs, lambda run: of_a_toy(run, scale))


def of_a_toy(run: Run, scale: str) -> Iterator[Row]:
    """Rows on the features of a small model's second layer, and on the model's error."""
    task, model = run.config.task, run.at(run.steps[-1])
    assert isinstance(task, RepeatedSegment)
    report = toy_report(model, task, SEQUENCES[scale], TOY_SAE[scale])
    batch = task.sample(512, generator(0, "errors of a toy"))
    error = 1 - float(task.correct(observe(model, batch).outputs, batch).float().mean())
    yield from (
        {"model": "two layers", "part": "toy", **one} for one in (row("error", "second copy", error), *known(report))
    )
