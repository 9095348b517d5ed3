"""Causal structure: is the first layer's attention the latent graph, and does the loss need it to be?

Nichani, Damian & Lee (2024, arXiv:2402.14735, sections 2 to 5) prove that gradient descent writes the graph of parents
into the first layer, since no earlier position shares more χ² mutual information with a token than its parent does. The
experiment has random trees learnt by SGD and by AdamW, graphs with two parents, the information computed from matrices
alone, and two hand-set transformers. The table has one row per number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pandas import DataFrame

from hopscope.circuits import kept as circuits
from hopscope.circuits.discovery import Discovery
from hopscope.configuration.config import Config, Training
from hopscope.core.storage import read_json
from hopscope.experiments.tables import columns_of
from hopscope.experiments.work import Finished, Work
from hopscope.measures.base import observe
from hopscope.runs.run import Run
from hopscope_studies.causal_structure.claims import claims as claims
from hopscope_studies.causal_structure.constructions import WAYS
from hopscope_studies.causal_structure.figure import figure as figure
from hopscope_studies.causal_structure.models.disentangled_transformer import DisentangledArchitecture
from hopscope_studies.causal_structure.readings import SEQUENCES, at_the_end
from hopscope_studies.causal_structure.tasks.causal_sequences import CausalSequences
from hopscope_studies.causal_structure.work import Construction, Information

#: Seconds that each scale takes on two cores.
SECONDS = {"quick": 4, "cpu": 240, "paper": 40_000}

SEEDS = {"quick": 1, "cpu": 5, "paper": 20}
#: By scale: states and positions of trees, and of graphs of two parents.
SIZES = {"quick": ((3, 6), (2, 6)), "cpu": ((3, 12), (3, 16)), "paper": ((3, 20), (5, 32))}
MEASURES = "parent_attention"
#: By scale, the settings that all trainings share; below, those of each optimizer.
COMMON: dict[str, dict[str, Any]] = {
    "quick": {"batch": 8, "val_size": 32, "log_every": 2, "checkpoints": "4"},
    "cpu": {"batch": 256, "val_size": 1024, "log_every": 250, "checkpoints": "1000"},
    "paper": {"batch": 1024, "val_size": 4096, "log_every": 128, "checkpoints": "1024"},
}
RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "sgd": {
        "quick": {"steps": 4},
        "cpu": {"steps": 8000, "schedule": "cosine"},
        "paper": {"steps": 2**14},
    },
    "adamw": {
        "quick": {"steps": 4},
        "cpu": {"steps": 4000, "schedule": "cosine", "lr": 0.02},
        "paper": {"steps": 2**14, "schedule": "cosine", "lr": 0.01},
    },
    "two parents": {
        "quick": {"steps": 4},
        "cpu": {"steps": 2500, "schedule": "cosine", "lr": 0.01},
        "paper": {"steps": 2**16, "schedule": "cosine", "lr": 0.01, "weight_decay": 1e-4},
    },
}


#: By scale, for how many seeds and with which settings circuits are searched; noisy answers need many sequences.
SEARCHES = {
    "quick": (1, Discovery(discovery=16, selection=16, report=32)),
    "cpu": (3, Discovery(discovery=512, selection=512, report=2048, alternatives=2)),
    "paper": (5, Discovery(discovery=512, selection=1024, report=4096)),
}


def runs(scale: str) -> Iterator[Config | Work]:
    """For each seed a random tree by SGD and by AdamW, a graph of two parents, and the work without training."""
    (V, T), _ = SIZES[scale]
    for seed in range(SEEDS[scale]):
        for kind in RECIPES:
            yield training(scale, kind, seed)
        for way in WAYS:
            yield Construction(way, V, T, seed=seed)
        for concentration in (0.1, 1.0):
            yield Information(V, T, concentration, seed=seed)
        yield Information(5, T, graph="chain", seed=seed)


def training(scale: str, kind: str, seed: int) -> Config:
    """The run of a kind, which is a key of `RECIPES`."""
    (V, T), (V2, T2) = SIZES[scale]
    task = CausalSequences(d_vocab=V, length=T, graph_seed=seed)
    model = DisentangledArchitecture()
    if kind == "two parents":
        task = CausalSequences(d_vocab=V2, length=T2, graph="two_parents", roots="uniform")
        model = DisentangledArchitecture(n_heads=2, noise=1e-4)
    how: dict[str, Any] = {"weight_decay": 0.0, "measures": MEASURES, **COMMON[scale], **RECIPES[kind][scale]}
    if kind == "sgd":
        how |= {"optimizer": "sgd", "lr": 1.0}
    return Config(task, model, Training(**how, seed=seed))


# Table -----------------------------------------------------------------------------------------------------------


def table(runs: list[Run | Finished], scale: str) -> DataFrame:
    """One row per number.

    Columns: kind (a key of `RECIPES`, `information`, or one of `WAYS`), seed, step, quantity, value. Quantities over
    training: `course loss` and `course attention`; at the end those of `readings.at_the_end`; for the first seeds
    `circuit accepted`, and `circuit` with a path, its strength; for seed 0 `pattern`, mean attention in layer 0 from
    position `query` to `key`, with `parent`, 1 if the latter is a parent of the former.
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        if isinstance(run, Finished):
            about = {"run": run.work.identity, "version": run.version, "seed": run.work.as_dict()["seed"]}
            about["kind"] = run.work.way if isinstance(run.work, Construction) else run.work.label.split("_")[1]
            rows += [about | row for row in named(read_json(run.path / "numbers.json"))]
        else:
            about = columns_of(run) | {"kind": kind_of(run.config)}
            rows += [about | row for row in [*course(run), *ending(run, scale)]]
    return DataFrame(rows)


def kind_of(config: Config) -> str:
    """The key of `RECIPES`."""
    return "two parents" if config.model.n_heads > 1 else config.training.optimizer.partition("(")[0]


def named(numbers: dict[str, float], **more: Any) -> Iterator[dict[str, Any]]:
    """One row per number."""
    yield from ({"quantity": name, "value": float(value), **more} for name, value in numbers.items())


def course(run: Run) -> Iterator[dict[str, Any]]:
    """Rows on the loss over training, and on the highest attention to parents of any head."""
    for row in run.rows:
        heads = row["measures"]["parent_attention"]
        most = max(value for name, value in heads.items() if not name.endswith("first"))
        yield from named({"course loss": row["val_loss"], "course attention": most}, step=row["step"])


def ending(run: Run, scale: str) -> Iterator[dict[str, Any]]:
    """Rows on the final model."""
    task, seed = run.task, run.config.training.seed
    assert isinstance(task, CausalSequences) and run.report is not None
    sequences = {"quick": 64}.get(scale, SEQUENCES)
    yield from named(at_the_end(run.model, task, seed, sequences), step=run.report["step"])
    if kind_of(run.config) == "two parents":
        return
    seeds, settings = SEARCHES[scale]
    if seed < seeds:
        found = circuits.circuit_of(run, settings)
        numbers = {"circuit accepted": found.accepted} | {f"circuit {one.path}": one.strength for one in found.paths}
        yield from named(numbers, step=run.report["step"])
    if seed == 0:
        pattern = observe(run.model, task.sample(sequences, 0)).cache["pattern", 0].mean(0)[0]
        for query, row in enumerate(pattern.tolist()):
            for key, attention in enumerate(row[: query + 1]):
                parent = float(task.latent.adjacency[query, key])
                yield from named({"pattern": attention, "parent": parent}, query=query, key=key)
