"""The frame of every experiment: from declared runs to a table, and from the table alone to a figure and claims.

An experiment is a file with four functions (docs/contracts.md):

    runs(scale)    yields the configurations to train, distinct
    table(runs)    measures the finished runs; one tidy DataFrame
    figure(table)  draws it
    claims(table)  judges it: the paper's sentences as code

and two constants: `SECONDS`, the time that each scale takes on two cores (by `hopscope sweep`; where some of its runs
are others' too, without those), and `CLAIMS`, the ids of what it judges. The file's docstring names paper and section.
One whose long runs are worth telling of before they are done says `PARTIAL = True`: a spent budget then leaves a table
of how far they came. Runs are trained in `runs/<task>-<identity>`, so experiments that want the same model share it,
and whatever was stopped goes on where it was. What is no training, such as asking a language model, is declared as
`Work`, and is kept and resumed in the same way.
"""

from __future__ import annotations

import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import filelock
import pandas
from pandas import DataFrame

from hopscope.configuration.config import Config
from hopscope.core import catalogue
from hopscope.core.environment import code_version
from hopscope.core.settings import BadInput, Settings
from hopscope.core.storage import Busy, Damaged, clear_errors, fingerprint, read_json, write_file, write_json
from hopscope.drawing.style import save
from hopscope.experiments.judging import Claim
from hopscope.runs.run import Run
from hopscope.training.loop import Interrupted, Watcher, train

SCALES = ("quick", "cpu", "paper")
TABLE, LOCK = "table.csv", ".lock"


class Stopped(Exception):
    """Work was stopped because the budget is spent; done again it goes on."""


class Work(Settings, ABC):
    """What an experiment wants done that is no training: frozen dataclasses of all that it depends on."""

    #: First part of its folder's name.
    label: ClassVar[str]

    @property
    def identity(self) -> str:
        """Twelve hexadecimal digits that change when anything about the work does."""
        return fingerprint({"work": self.label, **self.identifying()})[:12]

    @abstractmethod
    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        """Do it, or go on with it, and leave what was found in the folder. Raises `Stopped` when asked to stop."""


@dataclass(frozen=True)
class Finished:
    """Work that is done.

    Attributes:
        work: what it was.
        path: its folder.
        version: of the code that finished it.
    """

    work: Work
    path: Path
    version: str

    @classmethod
    def of(cls, work: Work, folder: Path, should_stop: Callable[[], bool]) -> Finished:
        """The work, done now unless it has been. Raises `Busy` while another process does it."""
        done = folder / "DONE"
        if not done.is_file():
            with alone_in(folder):
                if not done.is_file():  # else another process did it just before it let go of the folder
                    work.do(folder, should_stop)
                    write_json(done, {"version": code_version()})
        return cls(work, folder, read_json(done)["version"])


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Be the one process at work in a folder, which is made if need be. Raises Busy, CannotSave."""
    lock = filelock.FileLock(folder / ".work.lock")
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout as error:  # an OSError too, so it must be caught first
            raise Busy(f"another process is at work in {folder}; wait for it, or stop it") from error
    try:
        yield
    finally:
        lock.release()


def experiment(name: str) -> ModuleType:
    """An experiment's file. Raises BadInput if there is none, TypeError if it is not whole."""
    source = catalogue.module("experiments", name)
    missing = [part for part in ("runs", "table", "figure", "claims", "SECONDS", "CLAIMS") if not hasattr(source, part)]
    if missing:
        raise TypeError(f"the experiment {name} must define {', '.join(missing)}")
    return source


def run_folder(runs: Path, config: Config | Work) -> Path:
    """Where a configuration is trained: shared by all experiments, and by `hopscope train` without --out."""
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
    **how: Any,
) -> Outcome:
    """Train what is missing, then write `results/NAME/`: table.csv, figure.svg and .png, claims.json.

    Args:
        name: which experiment.
        scale: at which of `SCALES`.
        runs: folder of run folders.
        results: folder of results folders.
        budget: seconds after which training stops, resumably, and no table is begun; None: no limit.
        watcher: makes someone who is told how the labelled run goes.
        how: `device`, `threads`, `compile` of `hopscope.train`.

    Raises:
        BadInput: the experiment or scale is unknown, or a run cannot be trained. Busy: another process trains one.
        CannotSave: a folder cannot be written to; that of the results is tried before anything is trained.
    """
    source, configs = experiment(name), declared(name, scale)
    deadline = time.monotonic() + budget if budget is not None else math.inf
    if time.monotonic() < deadline:
        make_ready(results)
    finished: list[Run | Finished] = []
    for index, config in enumerate(configs):
        label = f"{name} {index + 1}/{len(configs)}"
        folder = run_folder(runs, config)
        if time.monotonic() >= deadline and not (folder / "DONE").is_file():
            return as_far_as_it_got(source, name, scale, configs, runs, results)
        watchers = (watcher(label),) if watcher else ()
        try:
            finished.append(carry_out(config, folder, lambda: time.monotonic() >= deadline, watchers, **how))
        except Stopped:
            return as_far_as_it_got(source, name, scale, configs, runs, results)
    if time.monotonic() >= deadline:
        return Outcome(name, scale, [run.path for run in finished], 0, None)
    table = source.table(finished).assign(scale=scale)
    return Outcome(name, scale, [run.path for run in finished], 0, publish(name, table, results))


def make_ready(results: Path) -> None:
    """Make the folder of results before anything is trained that could not be written there. Raises CannotSave."""
    with clear_errors(results):
        results.mkdir(parents=True, exist_ok=True)


def as_far_as_it_got(
    source: ModuleType, name: str, scale: str, configs: list[Config | Work], runs: Path, results: Path
) -> Outcome:
    """What a spent budget leaves: of an experiment that declares `PARTIAL`, a table of all that was begun, too."""
    folders = [run_folder(runs, config) for config in configs]
    begun = [Run(folder) for folder in folders if (folder / "metrics.jsonl").is_file()]
    done = [folder for folder in folders if (folder / "DONE").is_file()]
    left = len(folders) - len(done)
    if not (begun and getattr(source, "PARTIAL", False)):
        return Outcome(name, scale, done, left, None)
    return Outcome(name, scale, done, left, publish(name, source.table(begun).assign(scale=scale), results))


def carry_out(
    config: Config | Work,
    folder: Path,
    should_stop: Callable[[], bool],
    watchers: tuple[Watcher, ...] = (),
    **how: Any,
) -> Run | Finished:
    """Train, or work, to the end, from wherever the folder stands. Raises `Stopped`, after saving, when asked to."""
    if isinstance(config, Work):
        return Finished.of(config, folder, should_stop)
    try:
        return train(config, folder, watchers=watchers, should_stop=should_stop, **how)
    except Interrupted as stopped:
        if str(stopped).startswith("stopped"):
            raise Stopped(str(stopped)) from stopped
        raise


def declared(name: str, scale: str) -> list[Config | Work]:
    """The configurations of an experiment. Raises BadInput for an unknown scale or one that it does not offer."""
    if scale not in SCALES:
        raise BadInput(f"scale must be one of {', '.join(SCALES)}; got {scale!r}")
    configs = list(experiment(name).runs(scale))
    if not configs:
        raise BadInput(f"{name} has no runs at scale {scale}")
    return configs


def publish(name: str, table: DataFrame, results: Path) -> Path:
    """Write a table's figure and claims beside it; rows of other scales that stand there are kept."""
    folder = results / name
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(results / LOCK)  # drivers on several machines may end together
    with lock:
        if (folder / TABLE).is_file():
            earlier = table_in(folder)
            table = pandas.concat([earlier[~earlier.scale.isin(table.scale.unique())], table], ignore_index=True)
        write_file(folder / TABLE, table.to_csv(index=False, float_format="%.6g").encode())
        redraw(name, folder)
    return folder


def table_in(folder: Path) -> DataFrame:
    """The table of a results folder. Raises Damaged if it is missing, or none of ours."""
    try:
        table = pandas.read_csv(folder / TABLE, keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:  # of which pandas' own are
        raise Damaged(f"{folder / TABLE} cannot be read as a table: {error}") from error
    if not {"scale", "run", "version"} <= set(table.columns):
        raise Damaged(f"{folder / TABLE} is no table of results: it lacks a column scale, run or version")
    return table


def redraw(name: str, folder: Path) -> None:
    """Figure and claims, from table.csv alone: the figure at the largest scale there is, claims at each."""
    source = experiment(name)
    table = table_in(folder)
    scales = [scale for scale in SCALES if (table.scale == scale).any()]
    save(source.figure(table[table.scale == scales[-1]]), folder / "figure")
    rows = [row for scale in scales for row in judged(source, table[table.scale == scale], scale)]
    write_json(folder / "claims.json", rows)


def judged(source: ModuleType, table: DataFrame, scale: str) -> Iterator[dict[str, Any]]:
    """The claims as rows of claims.json. At the scale `quick`, which tests plumbing, every verdict is undecided."""
    claim: Claim
    for claim in source.claims(table):
        row = asdict(claim) | {"spread": list(claim.spread), "seeds": list(claim.seeds)}
        row |= {"verdict": "undecided" if scale == "quick" else claim.verdict}
        row |= {"number": finite(claim.number), "spread": [finite(x) for x in claim.spread]}
        yield {
            **row,
            "scale": scale,
            "runs": sorted(map(str, table.run.unique())),
            "version": ", ".join(sorted(map(str, table.version.unique()))),
        }


def finite(number: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return round(float(number), 6) if math.isfinite(number) else None


def all_claims(results: Path) -> list[dict[str, Any]]:
    """Every claim under `results/`, with its experiment: the data of `hopscope report`. Raises Damaged."""
    return [row for path in sorted(results.glob("*/claims.json")) for row in claims_in(path)]


def claims_in(path: Path) -> list[dict[str, Any]]:
    """The rows of a claims.json, with the experiment. Raises Damaged if they are not what `publish` writes."""
    rows = read_json(path)
    needed = {field.name for field in fields(Claim)} | {"scale"}
    if not isinstance(rows, list) or not all(isinstance(row, dict) and needed <= row.keys() for row in rows):
        raise Damaged(f"{path} is altered: it is no list of claims; 'hopscope report --redraw' makes it anew")
    return [{"experiment": path.parent.name, **row} for row in rows]


# Measuring runs, for the experiments' tables ---------------------------------------------------------------------


def hop_curves_of(runs: Iterable[Run], **columns: Callable[[Config], Any]) -> DataFrame:
    """Validation losses over training, one row per run, step and hop.

    Columns: run, version, seed, then one per keyword (a function of the configuration), step, val_loss, hop, hop_loss.
    """
    rows = []
    for run in runs:
        about = {
            "run": run.config.identity,
            "version": run.sessions[-1]["environment"]["code"],
            "seed": run.config.training.seed,
            **{name: of(run.config) for name, of in columns.items()},
        }
        for row in run.rows:
            for hop, loss in row["hop_losses"].items():
                rows.append({**about, "step": row["step"], "val_loss": row["val_loss"], "hop": hop, "hop_loss": loss})
    return DataFrame(rows)


LEARNT, SOLVED = 0.5, 0.05  # partial losses: of the paper's section 7.2, and ours


def endings_of(runs: Iterable[Run], **columns: Callable[[Config], Any]) -> DataFrame:
    """How each run ended, one row per run and hop.

    Columns: run, version, seed, one per keyword (a function of the configuration), hop, k (of x_k; of hops without a
    number their place), loss (mean over the last 100 steps), learnt (the step at which the loss went below 0.5; NaN:
    never), solved (whether the loss ended below 0.05), steps (trained).
    """
    runs = list(runs)
    curves = hop_curves_of(runs, **columns)
    found = curves[["run", "version", "seed", *columns, "hop"]].drop_duplicates().set_index(["run", "hop"])
    found = found.assign(loss=final(curves), learnt=first_below(curves, LEARNT)).reset_index()
    places = found.groupby("run").cumcount() + 1
    numbers = [re.search(r"\d+$", str(hop)) for hop in found.hop]
    found["k"] = [int(number[0]) if number else place for number, place in zip(numbers, places, strict=True)]
    found["steps"] = found.run.map({run.config.identity: run.config.training.steps for run in runs})
    return found.assign(solved=found.loss < SOLVED)


def final(curves: DataFrame, value: str = "hop_loss", last: int = 100) -> pandas.Series:
    """Mean over the last `last` steps, per run and hop (paper, section 7.1: the last 100)."""
    recent = curves[curves.step > curves.groupby("run").step.transform("max") - last]
    return recent.groupby(["run", "hop"])[value].mean()


def first_below(curves: DataFrame, threshold: float) -> pandas.Series:
    """Per run and hop the step at which the loss first goes below a threshold, linearly interpolated; NaN if never."""
    found = {}
    for key, curve in curves.sort_values("step").groupby(["run", "hop"]):
        found[key] = crossing(curve.step.tolist(), curve.hop_loss.tolist(), threshold)
    index = pandas.MultiIndex.from_tuples(list(found), names=["run", "hop"])
    return pandas.Series(list(found.values()), index=index, dtype=float)


def crossing(steps: list[float], losses: list[float], threshold: float) -> float:
    """Where a falling curve first meets a threshold; NaN if it never does."""
    for i, loss in enumerate(losses):
        if loss < threshold:
            if i == 0:
                return float(steps[0])
            share = (losses[i - 1] - threshold) / (losses[i - 1] - loss)
            return steps[i - 1] + share * (steps[i] - steps[i - 1])
    return math.nan
