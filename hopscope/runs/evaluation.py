"""A model's reported numbers: loss, losses by hop and accuracy on fresh sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hopscope.core.seeds import generator
from hopscope.interventions.clamps import Clamp, answers
from hopscope.models.base import Model
from hopscope.tasks.base import Task

REPORT_SIZE = 4096  # fresh sequences for the final numbers
CHUNK = 512  # sequences per forward pass in a measurement


@torch.no_grad()
def evaluate(model: Model, task: Task, n: int, seed: int, purpose: str, clamps: Sequence[Clamp] = ()) -> dict[str, Any]:
    """Loss, losses by hop and accuracy (0–1) of a model, clamped or not, on n fresh sequences, in float32."""
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
