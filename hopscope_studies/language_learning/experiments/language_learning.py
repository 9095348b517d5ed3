"""In-context language learning: strings of random automata, read by attention, by n-gram heads, and by recurrences.

Akyürek et al. (2024, arXiv:2401.12973, sections 3 to 6) find that transformers learn such languages in context better
than recurrent models, that their heads compute n-grams, and that n-gram heads put in by hand help all of them. Here
models have two layers with softmax attention, with three n-gram heads among the others, or of a rival (`KINDS`). They
are compared with n-gram models and with a predictor that knows the automaton. The table has one row per number.

Scale `cpu` compares three kinds after 600 steps. Scale `long` gives seven kinds 3,500 steps, which is some 3.6 hours of
one core. All kinds have as many parameters, to 3 %, and the same recipe; runs of one seed see the same sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.experiments.tables import rows_of
from hopscope.measures.base import observe
from hopscope.models.transformer import Architecture
from hopscope.runs.run import Run
from hopscope_studies.language_learning.claims import claims as claims
from hopscope_studies.language_learning.figure import figure as figure
from hopscope_studies.language_learning.models.lstm import LSTMShape
from hopscope_studies.language_learning.readings import ORDERS, of_model, of_n_grams
from hopscope_studies.language_learning.tasks.automaton_strings import AutomatonStrings

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 6, "cpu": 360, "long": 6500, "paper": 90_000}
CELL_SECONDS = 600

SEEDS = {"quick": 1, "cpu": 5, "long": 5, "paper": 5}
#: By name, the attention of each model; an LSTM has none.
KINDS = {
    "n-gram heads": "n_gram(orders='1,2,3')",
    "softmax": "softmax",
    "linear": "linear",
    "KV shift": "kv_shift",
    "state space": "state_space",
    "delta rule": "delta_rule",
    "LSTM": "",
}
FEW = ("n-gram heads", "softmax", "linear")  # the kinds of scale `cpu`
#: Widths of the LSTM with which it has as many parameters as the other kinds, by their width.
WIDTHS = {16: 19, 64: 79, 128: 157}
MEASURES = "total_variation,legal_accuracy"
#: By scale: the task, layers, heads and width, and the training.
SIZES: dict[str, tuple[dict[str, int], tuple[int, int, int], dict[str, Any]]] = {
    "quick": (
        {"length": 24},
        (1, 4, 16),
        {"steps": 4, "batch": 4, "val_size": 8, "log_every": 2, "checkpoints": "4"},
    ),
    "cpu": (
        {"length": 96},
        (2, 4, 64),
        {"steps": 600, "batch": 32, "warmup": 50, "lr": 2e-3, "val_size": 64, "log_every": 50, "checkpoints": "600"},
    ),
    "paper": (
        {"length": 512, "longest": 49},
        (2, 8, 128),
        {"steps": 31_400, "batch": 32, "warmup": 3140, "lr": 5e-4, "val_size": 250, "checkpoints": "3140"},
    ),
}
SIZES["long"] = *SIZES["cpu"][:2], SIZES["cpu"][2] | {"steps": 3500, "log_every": 100, "checkpoints": "3500"}
SEQUENCES = {"quick": 16, "cpu": 512, "long": 512, "paper": 512}  # on which ends are compared


def runs(scale: str) -> Iterator[Config]:
    """A model of each kind for each seed."""
    for seed in range(SEEDS[scale]):
        for kind in FEW if scale == "cpu" else KINDS:
            yield training(scale, kind, seed)


def training(scale: str, kind: str, seed: int) -> Config:
    """The run of a kind, which is a key of `KINDS`."""
    task, (layers, heads, width), how = SIZES[scale]
    how = {**how, "schedule": "cosine", "measures": MEASURES, "seed": seed}
    if kind == "LSTM":
        return Config(AutomatonStrings(**task), LSTMShape(layers, WIDTHS[width]), Training(**how))
    shape = Architecture(
        n_layers=layers,
        n_heads=heads,
        d_model=width,
        attention=KINDS[kind],
        positions="rotary",
        init="early_layers",
        mlp=True,
    )
    return Config(AutomatonStrings(**task), shape, Training(**how))


# Table -----------------------------------------------------------------------------------------------------------


def table(runs: list[Run], scale: str) -> DataFrame:
    """One row per number: run, version, seed, kind (a key of `KINDS`), step, quantity, value.

    Quantities over training: `course distance` and `course legal`, in the later half of sequences. At the end, on fresh
    sequences that all kinds share: the model's `distance`, `legal` and `loss`; those of n-gram models, such as
    `3-gram distance`; and `source loss`, that of a predictor that knows the automaton.
    """
    return rows_of(runs, lambda run: measured(run, SEQUENCES[scale]))


def measured(run: Run, sequences: int) -> Iterator[dict[str, Any]]:
    """Rows on a model over training and at its end."""
    attention = run.config.model.as_dict().get("attention", "")
    kind = next(kind for kind, its in KINDS.items() if its == attention)
    yield from ({"kind": kind, **row} for row in (*course(run), *ending(run, sequences)))


def course(run: Run) -> Iterator[dict[str, Any]]:
    """Rows on the measures over training."""
    for row in run.rows:
        for quantity, name in (("distance", "total_variation"), ("legal", "legal_accuracy")):
            yield {"step": row["step"], "quantity": f"course {quantity}", "value": row["measures"][name]["late"]}


def ending(run: Run, sequences: int) -> Iterator[dict[str, Any]]:
    """Rows on the final model, and on n-gram models on the same sequences."""
    task = run.task
    assert isinstance(task, AutomatonStrings) and run.report is not None
    batch = task.sample(sequences, generator(run.config.training.seed, "language learning"))
    numbers = of_model(observe(run.model, batch))
    for order in ORDERS:
        numbers |= {f"{order}-gram {name}": value for name, value in of_n_grams(task, batch, order).items()}
    for name, value in numbers.items():
        yield {"step": run.report["step"], "quantity": name, "value": value}
