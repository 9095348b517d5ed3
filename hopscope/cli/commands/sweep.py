"""`hopscope sweep NAME`: the runs of an experiment in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from hopscope.cli.commands import reproduce
from hopscope.cli.given import refuse_beside
from hopscope.cli.options import Between, as_json, completed, device, dry_run, progress
from hopscope.core.environment import choose_device
from hopscope.core.settings import BadInput, check_choice
from hopscope.core.terminal import Narrator, counting_bar, shows_progress
from hopscope.core.wording import count
from hopscope.execution.crew import Crew, Processes
from hopscope.execution.ray_workers import RayCrew
from hopscope.execution.submitit_jobs import LIMITS, SubmititCrew
from hopscope.execution.sweep import by_shape, stacked, sweep, work
from hopscope.experiments.base import declared
from hopscope.experiments.work import Stopped
from hopscope.runs.demand import check_together

ENGINES = ("local", "stacked", "ray", "submitit")


@click.command("sweep")
@click.argument("name", shell_complete=completed("experiments"))
@reproduce.scale
@click.option("--workers", type=click.IntRange(1), help="Processes of one thread each  [default: one per core]")
@click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="|".join(ENGINES),
    help="local: processes of one thread; stacked: runs of one shape in one program (on a GPU); ray: a Ray cluster; "
    "submitit: SLURM jobs.",
)
@click.option("--gpus", type=Between(0, 1), default=0.0, help="With ray: share of a GPU for each worker.")
@click.option(
    "--minutes",
    type=click.IntRange(*LIMITS),
    default=30,
    help="With submitit: time limit of a job.",
    show_default=True,
)
@click.option(
    "--slurm", metavar="NAME=VALUE", multiple=True, help="With submitit: for each job, such as partition=gpu."
)
@reproduce.limit
@reproduce.runs_folder
@reproduce.results_folder
@device
@click.option("--worker-of", type=int, hidden=True, help="Work for this process.")
@dry_run
@progress
@as_json
def command(
    name: str,
    scale: str,
    workers: int | None,
    engine: str,
    gpus: float,
    minutes: int,
    slurm: tuple[str, ...],
    budget: str | None,
    runs: Path,
    results: Path | None,
    device: str,
    worker_of: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Reproduce the experiment NAME with several runs at once; killed workers are replaced, and no run is repeated."""
    folder = reproduce.place(name, scale, runs, results)
    if worker_of is not None:
        be_worker(name, scale, runs, folder, device, worker_of)
        return
    until = reproduce.seconds(budget)
    choose_device(device)
    declared(name, scale)  # raises BadInput for an unknown experiment or scale
    check_choice("engine", engine, ENGINES)
    if engine == "stacked" and workers:
        raise BadInput("--engine stacked is one process; leave --workers out")
    if engine != "ray":
        refuse_beside("is for --engine ray (a local sweep takes --device cuda)", "gpus")
    if engine != "submitit":
        refuse_beside("is for --engine submitit", "minutes", "slurm")
    with Narrator("reading what is to be done"):
        configs = reproduce.to_train(name, scale, runs, folder)
        stack = max(map(len, by_shape(configs)), default=1)
        at_once = stack if engine == "stacked" else workers or os.cpu_count() or 1
        check_together(configs, at_once if engine in ("local", "stacked") else 1)
    if dry_run:
        reproduce.estimate([name], scale, runs, folder, at_once, as_json)
        return
    how: dict[str, Any] = {"runs": runs, "results": folder, "budget": until, "device": device}
    with counter(name) as watch:
        if engine == "stacked":
            outcome = stacked(name, scale, watch=watch, **how)
        else:
            hire = crew(engine, gpus, minutes, runs, slurm)
            outcome = sweep(name, scale, workers=at_once, watch=watch, hire=hire, **how)
    reproduce.tell([outcome], as_json)


def crew(engine: str, gpus: float, minutes: int, runs: Path, slurm: Sequence[str]) -> Callable[..., Crew]:
    """The crew of an engine, a function that starts workers from a command and their number. Raises BadInput."""
    if engine == "ray":
        return partial(RayCrew, gpus=gpus)
    if engine == "submitit":
        given = dict(split(one) for one in slurm)
        return partial(SubmititCrew, folder=runs / "jobs", minutes=minutes, slurm=given)
    return Processes


def split(parameter: str) -> tuple[str, str]:
    """Name and value of a parameter of jobs. Raises BadInput."""
    name, sign, value = parameter.partition("=")
    if not (name and sign and value):
        raise BadInput(f"--slurm takes NAME=VALUE, such as partition=gpu; got {parameter!r}")
    return name, value


def be_worker(name: str, scale: str, runs: Path, results: Path, device: str, driver: int) -> None:
    """Work until no run is left, or the driving process has ended."""
    with suppress(Stopped):
        work(name, scale, runs, results, lambda: os.getppid() != driver, device=device, threads=1)


@contextmanager
def counter(name: str) -> Iterator[Callable[[int, int], None]]:
    """Shows the number of finished runs on stderr: as a bar on a terminal, else as a line for each run."""
    shown = -1
    with counting_bar() as bar:
        task = bar.add_task(name, total=None)

        def watch(done: int, of: int) -> None:
            nonlocal shown
            bar.update(task, completed=done, total=of)
            if done != shown and shows_progress() and bar.disable:
                bar.console.print(f"{name}: {done} of {count(of, 'run')} done")
            shown = done

        yield watch
