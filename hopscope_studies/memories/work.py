"""The work of `memories` beside training: recall at given sizes, and searches for capacities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hopscope.configuration.config import Config, Training
from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.experiments.capacity import ENOUGH, LOOKS, TRIES, Search, best_recall, capacity
from hopscope.experiments.reports import Report
from hopscope.theory import memories
from hopscope_studies.memories.models.associative_memory import MemoryArchitecture
from hopscope_studies.memories.tasks.associations import Associations


@dataclass(frozen=True)
class Recall(Report):
    """A report on the recall of n pairs by a memory that is written without training."""

    label = "recall"
    file = "recall.json"

    memory: str = setting("outer_product", "which", choices=("outer_product", "one_step", "pseudo_inverse", "random"))
    d: int = setting(64, "width")
    n: int = setting(64, "pairs")
    overlap: float = setting(0.0, "mean inner product of two embeddings")
    orthonormal: bool = setting(False, "whether embeddings are orthonormal")
    seed: int = setting(0, "of the embeddings")

    def report(self) -> dict[str, Any]:
        random = generator(self.seed, "embeddings", self.n)
        inputs, outputs = (self.embeddings(random) for _ in range(2))
        answers = torch.arange(self.n)
        memory = written(self.memory, inputs, outputs, answers, random)
        return {
            "recall": memories.recall(memories.scores(memory, outputs, inputs), answers),
            "expected": memories.expected_recall(self.n, self.d),
        }

    def rows(self, report: Any) -> list[dict[str, Any]]:
        return [report]

    def embeddings(self, random: torch.Generator) -> Tensor:
        rows = memories.random_rows(self.n, self.d, random, self.overlap)
        return torch.linalg.qr(rows.T)[0].T if self.orthonormal else rows


def written(kind: str, inputs: Tensor, outputs: Tensor, answers: Tensor, random: torch.Generator) -> Tensor:
    """A memory that needs no training; `random` stores nothing."""
    if kind == "outer_product":
        return memories.stored_pairs(outputs, inputs, answers)
    if kind == "one_step":
        return memories.one_step(outputs, inputs, answers)
    if kind == "pseudo_inverse":  # least squares for u_k^T W e_z = 1{f*(z) = k} (Kohonen, 1972)
        wanted = torch.nn.functional.one_hot(answers, len(outputs)).to(inputs.dtype)
        return torch.linalg.pinv(outputs) @ wanted.T @ torch.linalg.pinv(inputs).T
    return torch.randn(outputs.shape[1], inputs.shape[1], generator=random)


def tried(found: Mapping[str, float], **about: Any) -> Iterator[dict[str, Any]]:
    """The sizes that a search tried, each with its recall and the capacity found."""
    tries = {int(size): recall for size, recall in found.items()}
    for n, recall in sorted(tries.items()):
        yield {"kind": "capacity", **about, "capacity": capacity(tries), "n": n, "recall": recall}


@dataclass(frozen=True)
class WrittenCapacity(Search):
    """How many pairs outer products hold in a matrix of width d."""

    label, file = "written-capacity", TRIES

    d: int = setting(16, "width")
    seed: int = setting(0, "of the embeddings")

    def recall_at(self, size: int, folder: Path, should_stop: Callable[[], bool]) -> float:
        random, answers = generator(self.seed, "capacity", size), torch.arange(size)
        inputs, outputs = (memories.random_rows(size, self.d, random) for _ in range(2))
        memory = written("outer_product", inputs, outputs, answers, random)
        return memories.recall(memories.scores(memory, outputs, inputs), answers)

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        return tried(report, memory="outer_product", ratio=0, n_classes=0, parameters=self.d**2)


@dataclass(frozen=True)
class TrainedCapacity(Search):
    """How many pairs a trained memory of width d holds, with one answer per input or `n_classes` answers in all."""

    label, file = "trained-capacity", TRIES

    d: int = setting(16, "width")
    ratio: int = setting(0, "m / d of an MLP's hidden width; 0: a matrix")
    n_classes: int = setting(0, "answers; 0: as many as inputs")
    steps: int = setting(4096, "of AdamW at most; training ends when recall is enough")
    lr: float = setting(1000.0, "its learning rate (paper's code: 1000 for a matrix, 0.03 for an MLP)")
    seed: int = setting(0, "of embeddings and initial weights")

    @property
    def model(self) -> MemoryArchitecture:
        """The memory that is trained."""
        return MemoryArchitecture(self.d, self.ratio * self.d)

    def recall_at(self, size: int, folder: Path, should_stop: Callable[[], bool]) -> float:
        return best_recall(self.training_of(size), folder, should_stop)

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        return tried(report, memory="mlp" if self.ratio else "linear", parameters=self.model.stored)

    def training_of(self, size: int) -> Config:
        """Full-batch AdamW without decay, until enough is recalled."""
        recipe: dict[str, Any] = {"steps": self.steps, "batch": size, "lr": self.lr, "weight_decay": 0.0}
        looks: dict[str, Any] = {"log_every": max(1, self.steps // LOOKS), "val_size": size, "stop_accuracy": ENOUGH}
        training = Training(**recipe, **looks, checkpoints=str(max(1, self.steps)), seed=self.seed)
        return Config(Associations(size, self.n_classes), self.model, training)
