"""What an optimizer supplies. Learning rate, its schedule, weight decay and clipping are the training's."""

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
    """A rule of updates with its settings: a frozen dataclass, one per file, written `name(setting=value)`."""

    @abstractmethod
    def make(self, parameters: Mapping[str, Tensor], training: Training) -> torch.optim.Optimizer:
        """A PyTorch optimizer of these parameters, whose state holds tensors by kind for each of them.

        Its state after a step must follow from the state before it, the gradients and the learning rate alone, so that
        a run resumes bit for bit.
        """


def decaying(parameters: Iterable[Tensor], training: Training) -> list[dict[str, Any]]:
    """Parameter groups by weight decay: all decay, or only those of two and more dimensions."""
    parameters = list(parameters)
    decays = [p for p in parameters if training.decay_on == "all" or p.ndim > 1]
    rest = [p for p in parameters if not any(p is other for other in decays)]
    groups = [{"params": decays, "weight_decay": training.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
