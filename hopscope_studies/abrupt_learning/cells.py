"""The study's conditions: one small model, its data, and the optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.abrupt_learning.models.attention_classifier import ClassifierArchitecture

#: Reddy's layout (section 2) at N = 4 and D = 32, without shifted positions.
TASK: dict[str, Any] = {
    "n_classes": 512,
    "n_labels": 16,
    "n_pairs": 4,
    "d_item": 32,
    "noise": 0.1,
    "labelling": "class",
    "distinct": False,
    "label_code": "vector",
    "position_code": "one_hot",
}
#: What only the context can answer: every sequence has classes of its own.
NEW: dict[str, Any] = {"fresh": 1.0}
#: As many labels as pairs, all of them different in every sequence: naming a label of the context gains nothing.
EVEN: dict[str, Any] = {**NEW, "n_labels": 4, "n_classes": 64, "distinct": True}
TRAINING: dict[str, Any] = {
    "batch": 128,
    "optimizer": "sgd",
    "lr": 0.05,
    "weight_decay": 1e-6,
    "log_every": 50,
    "val_size": 512,
    "stop_accuracy": 0.97,
    "measures": "progress",
}
ADAM: dict[str, Any] = {"optimizer": "adamw", "lr": 1e-3}
PAPER: dict[str, dict[str, Any]] = {
    "task": {"n_pairs": 8, "d_item": 63, "n_places": 65},
    "training": {"steps": 150_000, "checkpoints": "150000", "lr": 0.01, "log_every": 500},
}
TINY: dict[str, dict[str, Any]] = {
    "task": {"d_item": 8},
    "training": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16, "checkpoints": "20"},
}


@dataclass(frozen=True)
class Condition:
    """What one condition changes.

    Attributes:
        words: its name in figures.
        task: settings of the data.
        training: settings of the training.
        steps: training steps at most.
    """

    words: str
    task: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 8000


ABRUPT: dict[str, Condition] = {
    "context": Condition("16 labels, SGD", NEW, {}, 12_000),
    "even": Condition("L = N, all different, SGD", EVEN, steps=5000),
    "even, Adam": Condition("L = N, all different, Adam", EVEN, ADAM),
    "repeats": Condition("L = N, may repeat, SGD", {**EVEN, "distinct": False}),
}
#: In the context or in the weights: all sequences are bursty and show known classes, so that either could answer.
TRADED: dict[str, tuple[str, dict[str, Any]]] = {
    "few": ("64 classes", {"n_classes": 64}),
    "middle": ("512 classes", {}),
    "many": ("2,048 classes", {"n_classes": 2048}),
    "single": ("512 classes, each once", {"burst": 1}),
    "burst": ("512 classes, one class four times", {"burst": 4}),
    "noise": ("64 classes, items with more noise", {"n_classes": 64, "noise": 0.7}),
}
TRADE = {
    name: Condition(words, {"burst": 2, **task}, {**ADAM, "stop_accuracy": None}, 2500)
    for name, (words, task) in TRADED.items()
}


def cell(condition: Condition, seed: int, scale: str) -> Config:
    """A condition's run."""
    sized = {"quick": TINY, "paper": PAPER}.get(scale, {})
    task = {**TASK, **condition.task, **sized.get("task", {})}
    if scale == "paper" and "n_labels" in condition.task:
        task["n_labels"] = task["n_pairs"]
    own = {"steps": condition.steps, "checkpoints": str(condition.steps)}
    training = {**TRAINING, **condition.training, **own, **sized.get("training", {})}
    return Config(ItemLabels(**task), ClassifierArchitecture(), Training(**training, seed=seed))


def cells(named: Mapping[str, Condition], seeds: Iterable[int], scale: str) -> Iterator[Config]:
    """Every condition, over seeds."""
    for seed in seeds:
        for condition in named.values():
            yield cell(condition, seed, scale)


def streamed(measures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The progress measures of a row."""
    return dict(measures["progress"])
