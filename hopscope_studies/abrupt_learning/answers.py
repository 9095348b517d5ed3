"""How a model answers: from the context, from the weights, or by naming any label (Reddy, 2024, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hopscope.core.seeds import generator
from hopscope.experiments.long_table import entry
from hopscope.measures.base import observe
from hopscope.models.base import Model
from hopscope.runs.run import Run
from hopscope.tasks.base import Batch
from hopscope.tasks.item_labels import ItemLabels
from hopscope_studies.abrupt_learning.measures.progress import progress

SIZE = 2000  # sequences behind every number


@torch.no_grad()
def judged(model: Model, task: ItemLabels) -> Iterator[tuple[str, str, float]]:
    """Accuracies by test, under the paper's names, and the progress measures.

    `IC`: classes never seen before. `IC2`: known classes with other labels than in training. `IW`: known classes that
    the context does not show. `training`: sequences as in training. `patterns of others`: the same sequences, with
    layer 1 attending as in another sequence.
    """
    for name, test in tests(task).items():
        yield "accuracy", name, accuracy(model, test)
    batch = sample(task)
    name = "blocks.1.attn.hook_pattern"
    outputs = model(batch.inputs, replace={name: lambda p: p.roll(1, 0)}, at=task.query_positions)
    yield "accuracy", "patterns of others", float(task.correct(outputs, batch).float().mean())
    for measure, value in progress(observe(model, batch)).items():
        yield "final", measure, value


def tests(task: ItemLabels) -> dict[str, ItemLabels]:
    """The tests that a task allows."""
    found = {"training": task, "IC": task.but(fresh=1.0, bursty=1.0)}
    if task.fresh < 1:
        found["IC2"] = task.but(fresh=0.0, bursty=1.0, flipped=True)
        found["IW"] = task.but(fresh=0.0, bursty=1.0, absent=True)
    return found


def ending(run: Run, condition: str) -> Iterator[dict[str, Any]]:
    """Rows with the accuracies and measures of a run's final model."""
    task = run.config.task
    assert isinstance(task, ItemLabels)
    for kind, name, value in judged(run.model, task):
        yield entry({"condition": condition}, kind, name, value, run.step)


def sample(task: ItemLabels) -> Batch:
    """Fresh sequences, the same in every call."""
    return task.sample(SIZE, generator(0, "answers"))


def accuracy(model: Model, task: ItemLabels) -> float:
    """Share (0–1) of right answers."""
    batch = sample(task)
    outputs = model(batch.inputs, at=task.query_positions)
    return float(task.correct(outputs, batch).float().mean())
