"""The models of `switch_head`: experts, and dense attention with equally many parameters, maps, or both.

A layer of H heads of E experts has 2 d H d_h + 2 d H E d_h + 2 d H E weights, d the model's width and d_h a head's; a
dense layer of H' heads has 4 d H' d_h'. Apart from biases, both are equal if H' d_h' = H (d_h (1 + E) + E) / 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.models.transformer import Architecture
from hopscope.tasks.base import Task
from hopscope.tasks.induction import Induction
from hopscope_studies.switch_head.tasks.last_tokens import LastTokens


@dataclass(frozen=True)
class Size:
    """The sizes at one scale.

    Attributes:
        d_model: the width of the stream.
        layers: the layers of models for induction; those for places have one.
        maps: H, the heads of a layer with experts.
        experts: E.
        d_head: d_h of heads with experts.
        many: the heads of the dense layer with as many weights and more maps.
    """

    d_model: int
    layers: int
    maps: int
    experts: int
    d_head: int
    many: int

    def matched(self, d_head: int) -> int:
        """H' d_h', the total width of dense heads with as many weights as experts of this width."""
        return self.maps * (d_head * (1 + self.experts) + self.experts) // 2

    @property
    def wide(self) -> int:
        """The width of a dense head with as many maps and weights as experts."""
        return self.matched(self.d_head) // self.maps


#: Scale `paper` has the heads of the authors' model of 243 million parameters.
SIZES = {
    "quick": Size(16, 2, 2, 2, 6, 4),
    "cpu": Size(64, 2, 2, 4, 12, 8),
    "paper": Size(1024, 18, 4, 4, 100, 16),
}
PLACES: dict[str, dict[str, Any]] = {
    "quick": {"n_places": 4, "length": 10, "d_vocab": 4},
    "cpu": {},
    "paper": {"n_places": 16, "length": 256, "d_vocab": 256},
}
INDUCTION: dict[str, dict[str, Any]] = {
    "quick": {"length": 8, "d_vocab": 8},
    "cpu": {"length": 16, "d_vocab": 32},
    "paper": {"length": 255, "d_vocab": 8000},
}
#: A bias by distance; without it a model of two layers waits for a previous-token head (study `plateau`).
PRIOR = "relative(start='L0 1:4')"
TRAININGS: dict[str, dict[str, Any]] = {
    "quick": {"steps": 20, "batch": 8, "log_every": 10, "val_size": 16},
    "cpu": {"batch": 64, "lr": 3e-3, "val_size": 256},
    "paper": {"steps": 100_000, "batch": 64, "lr": 2.5e-4, "warmup": 4000, "log_every": 500},
}
#: Steps and logging of each part at `cpu`.
PARTS: dict[str, dict[str, Any]] = {
    "places": {"steps": 1500, "log_every": 50},
    "induction": {"steps": 1000, "log_every": 20, "lr": 2e-3},
}
WEIGHT_DECAY = 0.01

#: The models of each part, with the number of seeds at `cpu`: 8 if speeds are compared.
MODELS = ("experts", "many maps", "wide maps", "narrow maps", "wide experts", "widest maps")
CELLS = {"places": dict.fromkeys(MODELS, 5), "induction": dict.fromkeys(MODELS[:4], 8)}


def heads(model: str, size: Size) -> dict[str, Any]:
    """The heads of each kind of model.

    `experts` against `many maps` (as many weights), `wide maps` (as many weights and maps) and `narrow maps` (as many
    maps, as wide); `wide experts`, as wide as `wide maps`, against `widest maps` (as many weights and maps).
    """
    experts = {"n_heads": size.maps, "attention": f"switch_head(experts={size.experts})"}
    dense = {"n_heads": size.maps, "attention": "softmax"}
    return {
        "experts": experts | {"d_head": size.d_head},
        "many maps": dense | {"n_heads": size.many, "d_head": size.matched(size.d_head) // size.many},
        "wide maps": dense | {"d_head": size.wide},
        "narrow maps": dense | {"d_head": size.d_head},
        "wide experts": experts | {"d_head": size.wide},
        "widest maps": dense | {"d_head": size.matched(size.wide) // size.maps},
    }[model]


def cell(part: str, model: str, seed: int, scale: str = "cpu") -> Config:
    """One model, attention only: one layer for places with learnt positions, or two for induction with a prior."""
    size, places = SIZES[scale], part == "places"
    task: Task = LastTokens(**PLACES[scale]) if places else Induction(**INDUCTION[scale])
    shape = Architecture(
        n_layers=1 if places else size.layers,
        d_model=size.d_model,
        mlp=False,
        positions=None if places else PRIOR,
        init="early_layers",
        **heads(model, size),
    )
    sized = TRAININGS[scale] | (PARTS[part] if scale == "cpu" else {})
    return Config(task, shape, Training(**sized, checkpoints=str(sized["steps"]), weight_decay=WEIGHT_DECAY, seed=seed))


def cells(scale: str) -> Iterator[tuple[tuple[str, str], Config]]:
    """All models with their part and kind; at `quick` the first seed of each."""
    for part, models in CELLS.items():
        for model, seeds in models.items():
            for seed in range(1 if scale == "quick" else seeds):
                yield (part, model), cell(part, model, seed, scale)
