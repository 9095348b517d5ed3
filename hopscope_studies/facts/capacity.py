"""How many facts a one-layer transformer holds: the recipe of a training, and the search for the greatest number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopscope.configuration.config import Config, Training
from hopscope.core.settings import setting
from hopscope.experiments.capacity import ENOUGH, LOOKS, TRIES, Search, best_recall, capacity
from hopscope_studies.facts.models.one_layer_recall import OneLayerArchitecture
from hopscope_studies.facts.tasks.factual_recall import FactualRecall

STEPS, BATCH, RATE = 16384, 1024, 0.01  # of AdamW at most; fresh sentences per step; the best of three learning rates


def one_layer(
    model: OneLayerArchitecture,
    size: int,
    *,
    n_answers: int = 8,
    length: int = 32,
    steps: int = STEPS,
    batch: int = BATCH,
    lr: float = RATE,
    seed: int = 0,
) -> Config:
    """The run of a training on size² random facts, S = R = size, that ends once 99 % of 1,024 sentences are right.

    There are as many kinds of noise as subjects and relations together.
    """
    task = FactualRecall(length, size, size, n_answers, 2 * size, "random", seed)
    recipe: dict[str, Any] = {
        "steps": steps,
        "batch": batch,
        "lr": lr,
        "weight_decay": 0.0,
        "checkpoints": str(max(1, steps)),
    }
    looks: dict[str, Any] = {"log_every": max(1, steps // LOOKS), "val_size": 1024, "stop_accuracy": ENOUGH}
    return Config(task, model, Training(**recipe, **looks, seed=seed, seed_eval=seed))


@dataclass(frozen=True)
class FactCapacity(Search):
    """The greatest S = R of which a one-layer transformer recalls 99 % of the S R random facts.

    Heads are d_h = α d / H wide, the MLP m = β d.
    """

    label, file = "facts-capacity", TRIES

    d: int = setting(16, "width")
    n_heads: int = setting(8, "H")
    alpha: float = setting(1.0, "H d_h / d")
    beta: float = setting(0.0, "m / d")
    n_answers: int = setting(8, "D")
    length: int = setting(32, "T")
    steps: int = setting(STEPS, "of AdamW at most")
    batch: int = setting(BATCH, "fresh sentences per step")
    lr: float = setting(RATE, "learning rate")
    seed: int = setting(0, "of facts, embeddings, weights and data")

    @property
    def model(self) -> OneLayerArchitecture:
        """The architecture of these widths."""
        d_head = max(1, int(self.d * self.alpha / self.n_heads))
        return OneLayerArchitecture(self.d, self.n_heads, d_head, int(self.beta * self.d))

    @property
    def n_parameters(self) -> int:
        """The number of parameters: 4 H d_h d + 2 m d."""
        return self.model.attention_weights + self.model.mlp_weights

    def about(self) -> dict[str, Any]:
        return {"seed": self.seed, "kind": "capacity", "d": self.d, "alpha": self.alpha, "beta": self.beta}

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        """A row for each size that was tried."""
        tries = {int(size): recall for size, recall in report.items()}
        held = {"steps": self.steps, "parameters": self.n_parameters, "held": capacity(tries) ** 2}
        yield from ({**held, "size": size, "recall": recall} for size, recall in sorted(tries.items()))

    def recall_at(self, size: int, folder: Path, should_stop: Callable[[], bool]) -> float:
        how = {name: getattr(self, name) for name in ("n_answers", "length", "steps", "batch", "lr", "seed")}
        return best_recall(one_layer(self.model, size, **how), folder, should_stop)
