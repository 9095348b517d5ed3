"""Stochastic gradient descent, with optional momentum (Sutskever et al., 2013)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hopscope.configuration.config import Training
from hopscope.core.settings import BadInput, setting
from hopscope.training.optimizers.base import Optimizer, decaying


@dataclass(frozen=True)
class SGD(Optimizer):
    """PyTorch's SGD; weight decay is added to the gradient (it is not decoupled)."""

    momentum: float = setting(0.0, "share of the last update that is kept", low=0, high=0.9999999)
    nesterov: bool = setting(False, "whether to use Nesterov momentum: the gradient after the momentum's step")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise BadInput("sgd's nesterov needs a momentum above 0, such as sgd(momentum=0.9, nesterov=True)")

    def make(self, parameters: Mapping[str, Tensor], training: Training) -> torch.optim.SGD:
        groups = decaying(parameters.values(), training)
        return torch.optim.SGD(groups, lr=training.lr, momentum=self.momentum, nesterov=self.nesterov)
