"""Sweeps: an experiment's runs over several worker processes; the run folders are the truth, workers come and go.

Every worker walks through the experiment's runs and trains whatever is neither finished nor in another worker's hands
(one writer per run, by a file lock). So there is no queue that could be lost: a worker that was killed is replaced and
its run goes on from its last checkpoint; a driver that was killed is started again with the same command.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from hopscope.configuration.config import Config
from hopscope.core import outside
from hopscope.core.settings import BadInput
from hopscope.core.storage import Busy, fingerprint
from hopscope.execution.crew import Crew, Processes
from hopscope.experiments.base import CELL_BY_CELL, SCALES
from hopscope.experiments.results import make_ready, outstanding, publish_cell
from hopscope.experiments.runner import Outcome, carry_out, reproduce, run_folder
from hopscope.experiments.work import Finished, Stopped, Work
from hopscope.runs.run import Run
from hopscope.training.loop import Interrupted
from hopscope.training.stack import shape, stackable, train_many

LOOK, WAIT = 0.2, 1.0  # seconds between looks at the workers, and at what other drivers do
Watch = Callable[[int, int], None]


def unwatched(done: int, of: int) -> None:
    """Nobody is told."""


def work(name: str, scale: str, runs: Path, results: Path, should_stop: Callable[[], bool], **how: Any) -> None:
    """What a worker does: train whatever nobody has trained or is training, until there is nothing left to take.

    At scale `long` it also writes down what it has trained.

    Raises:
        Stopped: when asked to; the run at hand is saved.
    """
    for config in outstanding(name, scale, results):
        folder = run_folder(runs, config)
        if (folder / "DONE").is_file():
            continue
        if should_stop():
            raise Stopped
        try:
            cell = carry_out(config, folder, should_stop, experiment=name, **how)
        except Busy:
            continue
        if scale == CELL_BY_CELL:
            publish_cell(name, cell, results)


def finished(name: str, scale: str, runs: Path, results: Path | None = None) -> tuple[int, int]:
    """How many of an experiment's outstanding runs are done, and how many there are."""
    return counted([run_folder(runs, config) for config in outstanding(name, scale, results)])


def counted(folders: Sequence[Path]) -> tuple[int, int]:
    """How many of these are done, and how many there are."""
    return sum((folder / "DONE").is_file() for folder in folders), len(folders)


def sweep(
    name: str,
    scale: str,
    *,
    runs: Path,
    results: Path,
    workers: int,
    budget: float | None = None,
    device: str = "auto",
    watch: Watch = unwatched,
    hire: Callable[[Sequence[str], int], Crew] = Processes,
) -> Outcome:
    """Train an experiment's runs with several single-threaded processes, then write its results as `reproduce` does.

    Args:
        name: which experiment.
        scale: at which of `SCALES`.
        runs: folder of run folders.
        results: folder of results folders.
        workers: processes.
        budget: seconds after which all stop, resumably; None: no limit.
        device: of all workers.
        watch: told how many runs are done, of how many.
        hire: starts so many workers by a command; by default as processes of this machine.

    Raises:
        BadInput: the experiment or scale is unknown, or a run cannot be trained.
        RuntimeError: workers die and nothing gets done.
    """
    if scale not in SCALES or workers < 1:
        raise BadInput(
            f"a sweep needs a scale of {', '.join(SCALES)} and at least one worker; got {scale!r}, {workers}"
        )
    deadline = math.inf if budget is None else time.monotonic() + budget
    folders = [run_folder(runs, config) for config in outstanding(name, scale, results)]  # once: it is looked at often
    make_ready(results, name)
    crew = hire(command(name, scale, runs.resolve(), results.resolve(), device), workers)
    try:
        while crew.busy() and time.monotonic() < deadline:
            done, of = counted(folders)
            watch(done, of)
            crew.replace_the_dead(done)
            time.sleep(LOOK)
    finally:
        crew.dismiss()
    watch(*counted(folders))
    return conclude(name, scale, deadline, watch, runs=runs, results=results, device=device, threads=1)


def conclude(name: str, scale: str, deadline: float, watch: Watch, *, runs: Path, results: Path, **how: Any) -> Outcome:
    """The results, once every run is done: what workers left, as by a fault, is trained here; others' are waited for.

    Raises what `reproduce` does, but for Busy.
    """
    while True:
        left = None if math.isinf(deadline) else max(0.0, deadline - time.monotonic())
        try:
            return reproduce(name, scale, runs=runs, results=results, budget=left, **how)
        except Busy:  # a worker of another driver has it
            watch(*finished(name, scale, runs, results))
            time.sleep(WAIT)


def stacked(
    name: str,
    scale: str,
    *,
    runs: Path,
    results: Path,
    budget: float | None = None,
    device: str = "auto",
    watch: Watch = unwatched,
) -> Outcome:
    """The same in one process, with runs of one shape stacked into one program (`hopscope.training.stack`): the way on
    a GPU.

    What cannot be stacked, having clamps, frozen weights or a shape of its own, is trained alone. Arguments as for
    `sweep`.
    """
    deadline = math.inf if budget is None else time.monotonic() + budget
    make_ready(results, name)
    how: dict[str, Any] = {"device": device, "watch": watch, "experiment": name}
    how["results"] = results if scale == CELL_BY_CELL else None
    train_stacks(outstanding(name, scale, results), runs, lambda: time.monotonic() >= deadline, **how)
    return conclude(name, scale, deadline, watch, runs=runs, results=results, device=device)


def train_stacks(
    every: Sequence[Config | Work],
    runs: Path,
    should_stop: Callable[[], bool],
    *,
    device: str = "auto",
    watch: Watch = unwatched,
    experiment: str | None = None,
    results: Path | None = None,
) -> int:
    """Train runs in stacks of one shape, as far as time allows; how many are left.

    The experiment that wants them is recorded in their sessions. If `results` is given, the runs of a stack are written
    down there, as the experiment's cells, when the stack is done.
    """
    everywhere = [run_folder(runs, config) for config in every]
    for group in by_shape(every):
        watch(*counted(everywhere))
        folders = [run_folder(runs, config) for config in group]
        try:
            if all((folder / "DONE").is_file() for folder in folders):
                continue
            if should_stop():
                break
            if len(group) > 1:
                cells: Sequence[Run | Finished] = train_many(
                    group, folders, device=device, should_stop=should_stop, experiment=experiment
                )
            else:
                cells = [carry_out(group[0], folders[0], should_stop, device=device, experiment=experiment)]
            if results is not None and experiment is not None:
                for cell in cells:
                    publish_cell(experiment, cell, results)
        except Busy:  # another process trains a member: the group is left to who comes later
            continue
        except (Interrupted, Stopped) as stopped:
            if isinstance(stopped, Interrupted) and not stopped.asked:
                raise
            break
    done, of = counted(everywhere)
    watch(done, of)
    return of - done


def by_shape(configs: Sequence[Config | Work]) -> list[list[Any]]:
    """Configurations that can be stacked, together, in the order in which each shape first comes."""
    groups: dict[str, list[Any]] = {}
    for index, config in enumerate(configs):
        alone = isinstance(config, Work) or not stackable(config)
        key = f"alone {index}" if alone else fingerprint(shape(cast(Config, config)))
        groups.setdefault(key, []).append(config)
    return list(groups.values())


def command(name: str, scale: str, runs: Path, results: Path, device: str) -> list[str]:
    """How a worker is started."""
    options = ["--scale", scale, "--runs", str(runs), "--results", str(results), "--device", device]
    sweep = ["hopscope", *outside.options(), "sweep", name]  # named anew: another machine has another environment
    return [sys.executable, "-m", *sweep, *options, "--worker-of", str(os.getpid())]
