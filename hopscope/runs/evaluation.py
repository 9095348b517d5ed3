"""The numbers that a run is reported with: loss, partial losses and accuracy of a model on fresh sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hopscope.core.seeds import generator
from hopscope.interventions.clamps import Clamp, answers
from hopscope.models.base import Model
from hopscope.tasks.base import Task

REPORT_SIZE = 4096  # fresh sequences for the final numbers
CHUNK = 512  # sequences per forward when measuring


@torch.no_grad()
def evaluate(model: Model, task: Task, n: int, seed: int, purpose: str, clamps: Sequence[Clamp] = ()) -> dict[str, Any]:
    """Loss, partial losses and accuracy of a model, perhaps clamped, on n fresh sequences, in float32 and in chunks."""
    losses, hops, correct, weights = [], [], [], []
    for index, start in enumerate(range(0, n, CHUNK)):
        size = min(CHUNK, n - start)
        batch = task.sample(size, generator(seed, purpose, index, model.device))
        outputs = answers(clamps, model, batch)
        hops.append(task.hop_losses(outputs, batch.targets))
        losses.append(task.loss(outputs, batch.targets))
        correct.append(task.correct(outputs, batch))
        weights.append(size / n)
    weight = torch.tensor(weights, device=model.device)
    mean_hops = (torch.stack(hops).nan_to_num() * weight[:, None]).sum(0).tolist()
    return {
        "loss": float((torch.stack(losses) * weight).sum()),
        "hop_losses": dict(zip(task.hop_names, mean_hops, strict=True)),
        "accuracy": torch.cat(correct).float().mean(0).tolist(),
    }
