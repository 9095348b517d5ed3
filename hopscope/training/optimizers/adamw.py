"""AdamW: Adam with decoupled weight decay (Loshchilov & Hutter, 2019, arXiv:1711.05101)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.configuration.config import Training
from hopscope.training.optimizers.base import Optimizer, decaying


@dataclass(frozen=True)
class AdamW(Optimizer):
    """PyTorch's fused AdamW; its betas are `--beta1` and `--beta2`."""

    def make(self, parameters: Mapping[str, Tensor], training: Training) -> torch.optim.AdamW:
        groups = decaying(parameters.values(), training)
        return torch.optim.AdamW(groups, lr=training.lr, betas=(training.beta1, training.beta2), fused=True)
