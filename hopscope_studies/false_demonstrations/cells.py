"""The model and data of `false_demonstrations`: some labels are known, others must be read from the context."""

from __future__ import annotations

from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.item_labels import ItemLabels

#: Half of the sequences ask for a class that they hardly show (known by heart); of the others four in five have classes
#: of their own (read in the context). A context never contradicts what a class' label is.
TASK: dict[str, Any] = {
    "n_classes": 32,
    "n_labels": 8,
    "n_pairs": 4,
    "burst": 2,
    "d_item": 32,
    "labelling": "class",
    "bursty": 0.5,
    "fresh": 0.8,
}
MODEL: dict[str, Any] = {
    "n_layers": 4,
    "n_heads": 2,
    "d_model": 32,
    "d_mlp": 64,
    "positions": "rotary",
    "init": "fan_in",
    "mlp": True,
}
TRAINING: dict[str, Any] = {
    "steps": 1500,
    "batch": 64,
    "lr": 3e-3,
    "weight_decay": 0.0,
    "log_every": 50,
    "val_size": 256,
    "checkpoints": "1500",
}
#: By scale, what is changed. The paper's models are language models, so `paper` is a larger toy.
SIZES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "quick": (
        {"d_item": 8, "n_classes": 8},
        {"n_layers": 2, "d_model": 16, "d_mlp": 16},
        {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16, "checkpoints": "20"},
    ),
    "cpu": ({}, {}, {}),
    "paper": (
        {"n_classes": 256, "n_labels": 16, "n_pairs": 20, "d_item": 256},
        {"n_layers": 12, "n_heads": 8, "d_model": 128, "d_mlp": 512},
        {"steps": 20_000, "batch": 128, "lr": 1e-3, "checkpoints": "20000"},
    ),
}


def cell(seed: int, scale: str) -> Config:
    """The run of one model."""
    task, model, training = SIZES[scale]
    return Config(ItemLabels(**TASK | task), Architecture(**MODEL | model), Training(**TRAINING | training, seed=seed))
