"""Sweeps: an experiment's runs over several worker processes; all state is in the run folders.

Every worker walks through the experiment's runs and trains those that are neither finished nor being trained (a file
lock allows one writer per run). So there is no queue to lose. A killed worker is replaced, and its run continues from
its last checkpoint. A killed driver is restarted with the same command.
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
from hopscope.experiments.base import CELL_BY_CELL
from hopscope.experiments.results import make_ready, outstanding, publish_cell
from hopscope.experiments.runner import Outcome, carry_out, reproduce, run_folder
from hopscope.experiments.work import Finished, Stopped, Work
from hopscope.runs.run import Run
from hopscope.training.loop import Interrupted
from hopscope.training.stack import shape, stackable, train_many

LOOK, WAIT = 0.2, 1.0  # seconds between checks of our workers, and of runs that another driver trains
Watch = Callable[[int, int], None]


def unwatched(done: int, of: int) -> None:
    """Does nothing with reports of progress: the default of `watch`."""


def work(name: str, scale: str, runs: Path, results: Path, should_stop: Callable[[], bool], **how: Any) -> None:
    """A worker's program: train every run that is neither finished nor being trained, until none is left.

    At scale `long` it also publishes each cell that it has trained.

    Raises:
        Stopped: `should_stop` returned true; the current run is saved.
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
    """How many of these runs are done, and how many there are."""
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
        name: the experiment.
        scale: one that the experiment has runs at.
        runs: the folder of run folders.
        results: the folder of results folders.
        workers: the number of processes.
        budget: seconds after which all workers save and stop; None: no limit.
        device: the device of all workers.
        watch: called with the number of runs done, and of all runs.
        hire: makes a crew from a command and a number of workers; by default processes of this machine.

    Raises:
        BadInput: the experiment or scale is unknown, or a run cannot be trained.
        RuntimeError: workers die without finishing any run.
    """
    if workers < 1:
        raise BadInput(f"a sweep needs at least one worker; got {workers}")
    deadline = math.inf if budget is None else time.monotonic() + budget
    folders = [run_folder(runs, config) for config in outstanding(name, scale, results)]  # computed once
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
    """Write the results once every run is done; runs that workers left, as after an error, are trained here.

    Runs of another driver's workers are waited for. Raises what `reproduce` does, except Busy.
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
    """As `sweep`, in one process, with runs of one shape stacked (`hopscope.training.stack`): for a GPU.

    Runs that cannot be stacked, because of clamps, frozen weights or a shape of their own, are trained alone. Arguments
    are those of `sweep`.
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
    """Train runs in stacks of one shape until all are done or `should_stop`; returns how many are left.

    Runs that another process trains are left to it; the others of their shape are stacked without them. `experiment` is
    recorded in the runs' sessions. If `results` is given, the runs of a stack are published there as
    the experiment's cells when the stack is done.
    """
    everywhere = [run_folder(runs, config) for config in every]
    groups = by_shape(every)
    while groups:
        group = groups.pop(0)
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
        except Busy:  # another process trains a member: halves of the group are tried, down to this member alone
            half = len(group) // 2
            groups[:0] = [group[:half], group[half:]] if half else []
        except (Interrupted, Stopped) as stopped:
            if isinstance(stopped, Interrupted) and not stopped.asked:
                raise
            break
    done, of = counted(everywhere)
    watch(done, of)
    return of - done


def by_shape(configs: Sequence[Config | Work]) -> list[list[Any]]:
    """Configurations in groups of one shape, in order of first occurrence; those that cannot be stacked stay alone."""
    groups: dict[str, list[Any]] = {}
    for index, config in enumerate(configs):
        alone = isinstance(config, Work) or not stackable(config)
        key = f"alone {index}" if alone else fingerprint(shape(cast(Config, config)))
        groups.setdefault(key, []).append(config)
    return list(groups.values())


def command(name: str, scale: str, runs: Path, results: Path, device: str) -> list[str]:
    """The command that starts a worker."""
    options = ["--scale", scale, "--runs", str(runs), "--results", str(results), "--device", device]
    sweep = ["hopscope", *outside.options(), "sweep", name]  # passed on, for another machine has another environment
    return [sys.executable, "-m", *sweep, *options, "--worker-of", str(os.getpid())]
