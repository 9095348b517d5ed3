"""The base of optimizers. Learning rate, schedule, weight decay and clipping belong to the training loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hopscope.configuration.config import Training
from hopscope.core.settings import Variant


@dataclass(frozen=True)
class Optimizer(Variant, ABC):
    """An update rule with its settings: a frozen dataclass, one per file, written `name(setting=value)`."""

    @abstractmethod
    def make(self, parameters: Mapping[str, Tensor], training: Training) -> torch.optim.Optimizer:
        """A PyTorch optimizer of these parameters, with a state of named tensors for each.

        Its state after a step must be a function of the state before, the gradients and the learning rate, so that a
        resumed run is bit-identical.
        """


def decaying(parameters: Iterable[Tensor], training: Training, most: int = 1) -> list[dict[str, Any]]:
    """Parameter groups by weight decay, which applies to all parameters or only to those of over `most` dimensions."""
    parameters = list(parameters)
    decays = [p for p in parameters if training.decay_on == "all" or p.ndim > most]
    rest = [p for p in parameters if not any(p is other for other in decays)]
    groups = [{"params": decays, "weight_decay": training.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
