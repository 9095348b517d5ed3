"""An estimate of a run's memory and time, before it starts: memory by counting, time by a few of its own steps.

The timed steps are a run's (`hopscope.training.trainer`), on fresh data. Nothing is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch

from hopscope.configuration.config import Config
from hopscope.core import environment
from hopscope.core.memory import memory_free
from hopscope.runs.demand import check, demand
from hopscope.training.trainer import Trainer

LONG_ENOUGH = 1.0  # seconds of timed steps
MOST = 20  # timed steps


@dataclass(frozen=True)
class Estimate:
    """What training takes: a lower bound of memory, an estimate of time.

    Attributes:
        parameters: number of trained parameters.
        memory_bytes: a lower bound.
        memory_free_bytes: None where the system does not report it.
        steps: steps left to do.
        step_seconds: of one step, uncompiled, under the machine's present load; without validation and saving.
        seconds: of all steps.
    """

    parameters: int
    memory_bytes: int
    memory_free_bytes: int | None
    steps: int
    step_seconds: float
    seconds: float


def rehearse(config: Config, done: int = 0, device: str = "auto", threads: int | None = None) -> Estimate:
    """Estimate what is left of a run after `done` steps.

    Raises:
        BadInput: it cannot be trained here (`hopscope.runs.demand.check`).
    """
    check(config)
    where = environment.choose_device(device)
    if threads is not None:
        torch.set_num_threads(threads)
    needed, left = demand(config), max(0, config.training.steps - done)
    each = seconds_of_step(config, where) if left else 0.0
    free = memory_free()
    return Estimate(needed.parameters, needed.memory, free, left, round(each, 6), round(left * each, 3))


def seconds_of_step(config: Config, device: torch.device) -> float:
    """Seconds of the shortest of a few steps; the first, which is slow, counts only if there is time for no other."""
    trainer = Trainer(replace(config, training=config.training.but(examples=0)), device)
    spent: list[float] = []
    while sum(spent) < LONG_ENOUGH and len(spent) < MOST:
        began = time.perf_counter()
        float(trainer.step(min(len(spent), config.training.steps - 1)))
        spent.append(time.perf_counter() - began)
    return min(spent)
