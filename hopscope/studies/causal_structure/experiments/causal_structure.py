"""Causal structure: is the first layer's attention the latent graph, and does the loss need it to be?

Nichani, Damian & Lee (2024, arXiv:2402.14735, sections 2 to 5) prove that gradient descent writes the graph of parents
into the first layer, since no earlier position shares more χ² mutual information with a token than its parent does.
Here: random trees learnt by SGD and by AdamW, graphs of two parents, the information computed from matrices alone, and
a transformer made by hand. Tables are long: what was measured of which run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.experiments.work import Work
from hopscope.studies.causal_structure.models.disentangled_transformer import DisentangledArchitecture
from hopscope.studies.causal_structure.tasks.causal_sequences import CausalSequences

SEEDS = {"quick": 1, "cpu": 5, "paper": 20}
#: By scale: states and positions of trees, and of graphs of two parents.
SIZES = {"quick": ((3, 6), (2, 6)), "cpu": ((3, 12), (3, 16)), "paper": ((3, 20), (5, 32))}
MEASURES = "parent_attention"
#: By scale what all trainings share; and what each optimizer's have of their own.
COMMON: dict[str, dict[str, Any]] = {
    "quick": {"batch": 8, "val_size": 32, "log_every": 2, "checkpoints": "4"},
    "cpu": {"batch": 256, "val_size": 1024, "log_every": 250, "checkpoints": "2000"},
    "paper": {"batch": 1024, "val_size": 4096, "log_every": 128, "checkpoints": "1024"},
}
RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "sgd": {
        "quick": {"steps": 4},
        "cpu": {"steps": 4000, "schedule": "cosine"},
        "paper": {"steps": 2**14},
    },
    "adamw": {
        "quick": {"steps": 4},
        "cpu": {"steps": 2000, "schedule": "cosine", "lr": 0.02},
        "paper": {"steps": 2**14, "schedule": "cosine", "lr": 0.01},
    },
    "two parents": {
        "quick": {"steps": 4},
        "cpu": {"steps": 2500, "schedule": "cosine", "lr": 0.01},
        "paper": {"steps": 2**16, "schedule": "cosine", "lr": 0.01, "weight_decay": 1e-4},
    },
}


def runs(scale: str) -> Iterator[Config | Work]:
    """For each seed a random tree by SGD and by AdamW, and a graph of two parents."""
    for seed in range(SEEDS[scale]):
        for kind in RECIPES:
            yield training(scale, kind, seed)


def training(scale: str, kind: str, seed: int) -> Config:
    """One training: its kind is a key of `RECIPES`."""
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
