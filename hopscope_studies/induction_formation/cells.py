"""The study's conditions: one small model with changes of its data, or with clamps during training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.item_labels import ItemLabels

#: Two classes of 50, two labels of 5; two of the ten pairs of labels are withheld (Singh et al., section 3).
TASK: dict[str, Any] = {"n_classes": 50, "n_labels": 5, "withheld": 2}
MODEL: dict[str, Any] = {
    "n_layers": 2,
    "n_heads": 8,
    "d_model": 64,
    "mlp": False,
    "positions": "rotary",
    "init": "fan_in",
}
TRAINING: dict[str, Any] = {
    "batch": 32,
    "lr": 3e-4,
    "weight_decay": 0.0,
    "log_every": 10,
    "measures": "induction_strength,previous_token_score",
}
#: Singh et al., section 3: features of 512 numbers, Adam at 1e-5, a million sequences.
PAPER: dict[str, dict[str, Any]] = {
    "task": {"d_item": 512},
    "training": {"steps": 31_250, "lr": 1e-5, "log_every": 50, "checkpoints": "31250"},
}
TINY: dict[str, dict[str, Any]] = {
    "task": {"d_item": 8, "n_classes": 10},
    "training": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16, "checkpoints": "20"},
}

#: Of layer 1 only head 0 writes, so that what forms is one induction head.
ONE = "; ".join(f"L1H{head} silent@0" for head in range(1, 8))


@dataclass(frozen=True)
class Condition:
    """What one condition changes.

    Attributes:
        words: its name in figures.
        clamps: clamps during training.
        task: settings of the data.
        steps: training steps at most.
        whole: whether it is trained to the end rather than until the phase change.
    """

    words: str
    clamps: str = ""
    task: Mapping[str, Any] | None = None
    steps: int = 6000
    whole: bool = False


def clamped(more: str) -> str:
    """The clamps that leave one head in layer 1, followed by more clamps."""
    return f"{ONE}; {more}"


FREE: dict[str, Condition] = {
    "free": Condition("nothing", steps=3000, whole=True),
    "classes": Condition("four times the classes", task={"n_classes": 200}),
    "labels": Condition("three times the labels", task={"n_labels": 15, "withheld": 21}),
}
CLAMPS: dict[str, Condition] = {
    "none": Condition("one head of layer 1", ONE),
    "previous": Condition("and a head of layer 0 on the token before", clamped("L0H0 previous@0")),
    "perfect": Condition("and a perfect layer 0", clamped("L0 perfect@0")),
    "match": Condition("and its pattern right", clamped("L1H0 query->value[1] ideal@0")),
    "copy": Condition("and its attention as the answer", clamped("L1H0 copied@0")),
    "patterns": Condition("and layer 0 for patterns alone", clamped("L0 preserved@0")),
    "silent": Condition("and nothing of layer 0", clamped("L0 silent@0"), steps=3000),
}
#: A run that is not trained to its end stops below this loss, when its phase change is over.
OVER = 0.15


def cell(condition: Condition, seed: int, scale: str) -> Config:
    """The run of a condition."""
    sized = {"quick": TINY, "paper": PAPER}.get(scale, {})
    task = {**TASK, **sized.get("task", {}), **(condition.task or {})}
    stop = {"checkpoints": "200"} if condition.whole else {"checkpoints": str(condition.steps), "stop_below": OVER}
    training = {**TRAINING, "steps": condition.steps, **stop, **sized.get("training", {}), "clamps": condition.clamps}
    return Config(ItemLabels(**task), Architecture(**MODEL), Training(**training, seed=seed))


def cells(named: Mapping[str, Condition], seeds: Iterable[int], scale: str) -> Iterator[Config]:
    """Every condition, over seeds."""
    for seed in seeds:
        for condition in named.values():
            yield cell(condition, seed, scale)


def best(measures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The measures of the best head of each kind, in the layer where this kind occurs."""
    kinds = {"induction": ("induction_strength", "L1"), "previous token": ("previous_token_score", "L0")}
    return {
        name: max(value for head, value in measures[measure].items() if head.startswith(layer))
        for name, (measure, layer) in kinds.items()
    }
