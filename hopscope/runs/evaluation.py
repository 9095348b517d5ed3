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
    """Loss, losses of the hops that are asked, and accuracy (0–1) of a model on n fresh sequences, in float32."""
    losses, hops, correct, weights = [], [], [], []
    for index, start in enumerate(range(0, n, CHUNK)):
        size = min(CHUNK, n - start)
        batch = task.sample(size, generator(seed, purpose, index, model.device))
        outputs = answers(clamps, model, batch)
        hops.append(task.hop_losses(outputs, batch.targets))
        losses.append(task.loss(outputs, batch.targets))
        correct.append(task.correct(outputs, batch))
        weights.append(size / n)
    weight, by_chunk = torch.tensor(weights, device=model.device), torch.stack(hops)
    asked = weight[:, None] * ~by_chunk.isnan()
    mean_hops = (by_chunk.nan_to_num() * asked).sum(0) / asked.sum(0)
    return {
        "loss": float((torch.stack(losses) * weight).sum()),
        "hop_losses": task.by_hop(mean_hops),
        "accuracy": torch.cat(correct).float().mean(0).tolist(),
    }
