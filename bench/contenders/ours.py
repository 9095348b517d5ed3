"""hopscope itself: the very step that `hopscope train` makes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from bench.work import Work
from hopscope.training.trainer import Trainer


def make(work: Work, dtype: str, compiled: bool) -> Callable[[int], float]:
    trainer = Trainer(work.config(dtype), torch.device("cpu"))
    if compiled:
        trainer.model.compile_parts()
    return lambda step: trainer.step(step).item()
