"""From declared runs to results: missing runs are trained, within a budget, then measured, and results are written."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hopscope.configuration.config import Config
from hopscope.experiments.base import CELL_BY_CELL, declared, experiment
from hopscope.experiments.results import make_ready, measured, publish, publish_cell, publish_rows, standing
from hopscope.experiments.work import Finished, Stopped, Work
from hopscope.runs.run import Run
from hopscope.training.loop import Interrupted, Watcher, train


def run_folder(runs: Path, config: Config | Work) -> Path:
    """The folder of a run: shared by all experiments, and by `hopscope train` without --out."""
    label = config.label if isinstance(config, Work) else config.task.name()
    return runs / f"{label}-{config.identity}"


@dataclass(frozen=True)
class Outcome:
    """How far a reproduction came."""

    name: str
    scale: str
    trained: list[Path]
    left: int
    results: Path | None

    @property
    def done(self) -> bool:
        """Whether every run is finished and the results are written."""
        return self.left == 0 and self.results is not None


def reproduce(
    name: str,
    scale: str,
    *,
    runs: Path,
    results: Path,
    budget: float | None = None,
    watcher: Callable[[str], Watcher] | None = None,
    telling: Callable[[str], AbstractContextManager[object]] = nullcontext,
    **how: Any,
) -> Outcome:
    """Train the missing runs, then write `results/NAME/`: table.csv, figure.svg, claims.json.

    Args:
        name: the experiment.
        scale: one of `SCALES`.
        runs: the folder of run folders.
        results: the folder of results folders.
        budget: seconds after which training stops, resumably, and nothing more is measured; None: no limit.
        watcher: makes a watcher for the run of a label, such as a progress bar.
        telling: makes a context manager that reports progress for steps other than training.
        how: `device`, `threads`, `compile` of `hopscope.train`.

    Raises:
        BadInput: the experiment or scale is unknown, or a run cannot be trained. Busy: another process trains one.
        CannotSave: a folder cannot be written to; that of the results is tried before anything is trained.
    """
    with telling("reading what is to be done"):
        source, configs = experiment(name), declared(name, scale)
    deadline = time.monotonic() + budget if budget is not None else math.inf
    spent = lambda: time.monotonic() >= deadline  # noqa: E731
    if not spent():
        make_ready(results, name)

    def finish(index: int) -> Run | Finished | None:
        """One of the runs, finished; None if there was no time left."""
        folder = run_folder(runs, configs[index])
        if spent() and not (folder / "DONE").is_file():
            return None
        watchers = (watcher(f"{name} {index + 1}/{len(configs)}"),) if watcher else ()
        try:
            return carry_out(configs[index], folder, spent, watchers, experiment=name, **how)
        except Stopped:
            return None

    if scale == CELL_BY_CELL:
        return cell_by_cell(name, configs, finish, spent, results)
    finished: list[Run | Finished] = []
    for index in range(len(configs)):
        if (run := finish(index)) is None:
            return as_far_as_it_got(source, name, scale, configs, runs, results)
        finished.append(run)
    if spent():
        return Outcome(name, scale, [run.path for run in finished], 0, None)
    with telling(f"measuring {name}, drawing and judging"):
        table = measured(source, finished, scale)
        return Outcome(name, scale, [run.path for run in finished], 0, publish(name, table, results))


def cell_by_cell(
    name: str,
    configs: Sequence[Config | Work],
    finish: Callable[[int], Run | Finished | None],
    spent: Callable[[], bool],
    results: Path,
) -> Outcome:
    """Finish and publish every cell that has no rows yet, one after another, until the time is spent."""
    trained = []
    for index, config in enumerate(configs):
        if config.identity in standing(results / name):  # looked up anew: others may be at work on the same table
            continue
        if (cell := finish(index)) is None or spent():
            break
        publish_cell(name, cell, results)
        trained.append(cell.path)
    stand = standing(results / name)
    left = sum(config.identity not in stand for config in configs)
    if left < len(configs) and not trained and not spent():
        publish_rows(name, None, results)  # a kill may have come between a table and its claims
    return Outcome(name, CELL_BY_CELL, trained, left, results / name if stand else None)


def as_far_as_it_got(
    source: ModuleType, name: str, scale: str, configs: list[Config | Work], runs: Path, results: Path
) -> Outcome:
    """The outcome of a spent budget; an experiment with `PARTIAL` also gets a table of all runs that were begun."""
    folders = [run_folder(runs, config) for config in configs]
    begun = [Run(folder) for folder in folders if (folder / "metrics.jsonl").is_file()]
    done = [folder for folder in folders if (folder / "DONE").is_file()]
    left = len(folders) - len(done)
    if not (begun and getattr(source, "PARTIAL", False)):
        return Outcome(name, scale, done, left, None)
    return Outcome(name, scale, done, left, publish(name, measured(source, begun, scale), results))


def carry_out(
    config: Config | Work,
    folder: Path,
    should_stop: Callable[[], bool],
    watchers: tuple[Watcher, ...] = (),
    **how: Any,
) -> Run | Finished:
    """Train a run, or do work, to the end, continuing what the folder holds. Raises `Stopped`, after saving."""
    if isinstance(config, Work):
        return Finished.of(config, folder, should_stop)
    try:
        return train(config, folder, watchers=watchers, should_stop=should_stop, **how)
    except Interrupted as stopped:
        if stopped.asked:
            raise Stopped(str(stopped)) from stopped
        raise
