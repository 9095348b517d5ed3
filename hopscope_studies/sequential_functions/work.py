"""The work of `sequential_functions` beside training: errors of references and of a hand-set network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hopscope.core.seeds import generator
from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope.models.base import Model
from hopscope.tasks.base import Batch
from hopscope_studies.sequential_functions.construction import descent_by_hand
from hopscope_studies.sequential_functions.tasks.self_generated import SelfGenerated
from hopscope_studies.sequential_functions.theory.references import RELEASED, best_rate, errors, source_errors


def sequences(task: SelfGenerated, size: int, seed: int) -> Batch:
    """Fresh sequences, on which models and references of one seed are compared."""
    return task.sample(size, generator(seed, "comparison"))


def model_errors(model: Model, batch: Batch) -> list[float]:
    """A model's mean squared error by place."""
    with torch.no_grad():
        outputs = model(batch.inputs, at=batch.task.query_positions)
    return [float(loss) for loss in batch.task.hop_losses(outputs, batch.targets)]


def by_place(about: dict[str, Any], errors: Sequence[float], first: int = 2) -> Iterator[dict[str, Any]]:
    """A row per place."""
    for place, error in enumerate(errors, first):
        yield {**about, "place": place, "error": error}


@dataclass(frozen=True)
class References(Report):
    """A report on errors by place of every prediction without training, and of one step of descent as a network."""

    label = "references"
    file = "errors.json"

    d_x: int = setting(3, "components of x and y")
    length: int = setting(14, "number of x")
    noise: float = setting(0.25, "standard deviation of the labels' noise")
    replaced: float = setting(0.0, "share of random labels")
    size: int = setting(500, "sequences")
    seed: int = setting(0, "of the sequences")

    @property
    def task(self) -> SelfGenerated:
        """The task of the sequences."""
        return SelfGenerated(d_x=self.d_x, length=self.length, noise=self.noise, replaced=self.replaced)

    def report(self) -> dict[str, Any]:
        batch = sequences(self.task, self.size, self.seed)
        by_hand = model_errors(descent_by_hand(self.task, best_rate(self.task)), batch)
        return errors(self.task, batch) | {"one step by hand": by_hand}

    def about(self) -> dict[str, Any]:
        return {"seed": self.seed, "kind": "reference", "share": self.replaced}

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        for name, each in report.items():
            yield from by_place({"who": name}, each)


@dataclass(frozen=True)
class Source(Report):
    """A report on errors by place on the source's own sequences."""

    label = "source"
    file = "errors.json"

    size: int = setting(400, "sequences")
    seed: int = setting(0, "of the sequences")

    def report(self) -> dict[str, Any]:
        return source_errors(self.size, self.seed)

    def about(self) -> dict[str, Any]:
        return {"seed": self.seed, "kind": "source", "share": 0.0}

    def rows(self, report: Any) -> Iterator[dict[str, Any]]:
        """The references' errors, and those of the source's released model."""
        for name, each in (*report.items(), ("released model", RELEASED)):
            yield from by_place({"who": name}, each, first=1)
