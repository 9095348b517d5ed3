"""The ordinary PyTorch training loop, shared by all contenders that are a PyTorch module."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from bench.work import LEARNING_RATE, WEIGHT_DECAY, Work


def ordinary_step(model: nn.Module, work: Work, dtype: str) -> Callable[[int], float]:
    """A step of AdamW on the mean squared error; the model maps inputs to the answers at the query positions."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)

    def step(index: int) -> float:
        inputs, targets = work.draw(index)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            outputs = model(inputs)
        loss = F.mse_loss(outputs.float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
