"""The frame of every experiment: from declared runs to a table, and from the table alone to a figure and claims.

An experiment is a file with four functions (docs/contracts.md):

    runs(scale)           yields the configurations to train, distinct
    table(runs, scale)    measures the finished runs of a scale; one tidy DataFrame
    figure(table)         draws it
    claims(table)         judges it: the paper's sentences as code

and two constants: `SECONDS`, the time that each scale it offers takes on two cores (by `hopscope sweep`; where some of
its runs are others' too, without those), and `CLAIMS`, the ids of what it judges. The file's docstring names paper and
section. One whose long runs are worth telling of before they are done says `PARTIAL = True`: a spent budget then leaves
a table of how far they came. Runs are trained in `runs/<task>-<identity>`, so experiments that want the same model
share it, and whatever was stopped goes on where it was. What is no training, such as asking a language model, is
declared as `Work`, and is kept and resumed in the same way.

At scale `long` results are kept cell by cell, a cell being one run or one piece of work: its rows are written as soon
as it is finished, and a cell whose rows stand in table.csv is not done again, with or without its run folder. So the
table must be the union of its cells' (`table([a, b]) = table([a]) + table([b])`, every row under its cell's identity in
the column `run`), and figure and claims must stand it that some are missing. `CELL_SECONDS` says what the longest cell
takes on one core. A table that compares runs with each other says `COMPARES_RUNS = True`, and offers no `long`.
"""

from __future__ import annotations

import io
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from hopscope.core.storage import (
    Busy,
    Damaged,
    clear_errors,
    enlist,
    fingerprint,
    listed,
    parse_json,
    read_json,
    read_listed,
    read_manifest,
    unlist,
    write_file,
    write_json,
)
from hopscope.drawing.style import save
from hopscope.experiments.judging import Claim
from hopscope.runs.integrity import there_in
from hopscope.runs.run import Run
from hopscope.training.loop import Interrupted, Watcher, train

SCALES = ("quick", "cpu", "long", "paper")
CELL_BY_CELL = "long"  # the scale whose rows are written as each run is finished
TABLE, LOCK = "table.csv", ".lock"
DRAWN = ("figure.svg", "figure.png", "claims.json")  # from the table


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
        """The work, done now unless it has been. Raises `Busy` while another process does it, Damaged."""
        done = folder / "DONE"
        if not done.is_file():
            with alone_in(folder):
                if not done.is_file():  # else another process did it just before it let go of the folder
                    unlist(folder, listed(folder))
                    work.do(folder, should_stop)
                    enlist(folder, there_in(folder), version=code_version())
                    write_json(done, {"version": code_version()})
        for name in (names := listed(folder)):
            read_listed(folder, name)
        said = read_manifest(folder).get("version") if names else None
        return cls(work, folder, said or read_json(done)["version"])


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
    whole = hasattr(source, "CELL_SECONDS") and not getattr(source, "COMPARES_RUNS", False)
    if CELL_BY_CELL in source.SECONDS and not whole:
        raise TypeError(f"the experiment {name} offers {CELL_BY_CELL}, so it states CELL_SECONDS and compares no runs")
    return source


def offered(name: str) -> list[str]:
    """The scales at which an experiment has runs, in their order: those of which it says what they take."""
    seconds = experiment(name).SECONDS
    return [scale for scale in SCALES if scale in seconds]


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
        budget: seconds after which training stops, resumably, and nothing is measured any more; None: no limit.
        watcher: makes someone who is told how the labelled run goes.
        how: `device`, `threads`, `compile` of `hopscope.train`.

    Raises:
        BadInput: the experiment or scale is unknown, or a run cannot be trained. Busy: another process trains one.
        CannotSave: a folder cannot be written to; that of the results is tried before anything is trained.
    """
    source, configs = experiment(name), declared(name, scale)
    deadline = time.monotonic() + budget if budget is not None else math.inf
    spent = lambda: time.monotonic() >= deadline  # noqa: E731
    if not spent():
        make_ready(results, name)

    def finish(index: int) -> Run | Finished | None:
        """One of the runs, finished; None if there was no time."""
        folder = run_folder(runs, configs[index])
        if spent() and not (folder / "DONE").is_file():
            return None
        watchers = (watcher(f"{name} {index + 1}/{len(configs)}"),) if watcher else ()
        try:
            return carry_out(configs[index], folder, spent, watchers, **how)
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
    table = source.table(finished, scale).assign(scale=scale)
    return Outcome(name, scale, [run.path for run in finished], 0, publish(name, table, results))


def cell_by_cell(
    name: str,
    configs: Sequence[Config | Work],
    finish: Callable[[int], Run | Finished | None],
    spent: Callable[[], bool],
    results: Path,
) -> Outcome:
    """Every cell whose rows do not stand yet, finished and written down, one after the other, as far as time allows."""
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


def outstanding(name: str, scale: str, results: Path | None = None) -> list[Config | Work]:
    """What of an experiment is to be done: all of it, but for cells whose rows stand. Raises BadInput, Damaged."""
    stand = standing(results / name) if results and scale == CELL_BY_CELL else ()
    return [config for config in declared(name, scale) if config.identity not in stand]


def standing(folder: Path) -> set[str]:
    """Identities of the cells whose rows stand in a folder of results. Raises Damaged if its table is none of ours."""
    if not (folder / TABLE).is_file():
        return set()
    table = table_in(folder, as_text=True)
    return set(table.run[table.scale == CELL_BY_CELL])


def make_ready(results: Path, name: str) -> None:
    """Make the folder of results before anything is trained that could not be written there.

    Raises CannotSave; and Damaged if the table that is there, of which other scales are kept, is altered.
    """
    with clear_errors(results):
        results.mkdir(parents=True, exist_ok=True)
    if (results / name / TABLE).is_file():
        table_in(results / name)


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
    return Outcome(name, scale, done, left, publish(name, source.table(begun, scale).assign(scale=scale), results))


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
        if stopped.asked:
            raise Stopped(str(stopped)) from stopped
        raise


def declared(name: str, scale: str) -> list[Config | Work]:
    """The configurations of an experiment. Raises BadInput for an unknown scale or one that it does not offer."""
    if scale not in SCALES:
        raise BadInput(f"scale must be one of {', '.join(SCALES)}; got {scale!r}")
    if scale not in offered(name):
        raise BadInput(f"{name} has no runs at scale {scale}; it has some at {', '.join(offered(name))}")
    return list(experiment(name).runs(scale))


def publish(name: str, table: DataFrame, results: Path) -> Path:
    """Write a table's figure and claims beside it; rows of other scales that stand there are kept."""
    scales = set(table.scale)
    return rewrite(name, results, lambda earlier: [earlier[~earlier.scale.isin(scales)], as_text(table)])


def publish_cell(name: str, cell: Run | Finished, results: Path) -> Path:
    """Measure one cell and put its rows into the table, with the claims judged anew.

    Raises TypeError if the experiment's table has no rows of it, or rows of others.
    """
    table = experiment(name).table([cell], CELL_BY_CELL).assign(scale=CELL_BY_CELL)
    identity = (cell.work if isinstance(cell, Finished) else cell.config).identity
    if set(table.get("run", ())) != {identity}:
        raise TypeError(f"the experiment {name} offers {CELL_BY_CELL}: each run must have rows of its own in the table")
    return publish_rows(name, table, results)


def publish_rows(name: str, table: DataFrame | None, results: Path) -> Path:
    """Put cells' rows where they belong: in the order in which cells are declared; rows of what no longer is, go."""
    place = {config.identity: index for index, config in enumerate(declared(name, CELL_BY_CELL))}

    def merged(earlier: DataFrame) -> list[DataFrame]:
        cells = earlier[earlier.scale == CELL_BY_CELL]
        if table is not None:
            cells = pandas.concat([cells[~cells.run.isin(set(table.run))], as_text(table)])
        cells = cells[cells.run.isin(place)].sort_values("run", key=lambda run: run.map(place), kind="stable")
        return [earlier[earlier.scale != CELL_BY_CELL], cells]

    return rewrite(name, results, merged)


def rewrite(name: str, results: Path, merge: Callable[[DataFrame], list[DataFrame]]) -> Path:
    """Replace a table by what becomes of it, then its figure and claims; nobody else writes in the meantime.

    Rows are handled as text, so that those that are kept are kept to the letter.
    """
    folder = results / name
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(results / LOCK)  # drivers on several machines may end together
    with lock:
        there = (folder / TABLE).is_file()
        earlier = table_in(folder, as_text=True) if there else DataFrame(columns=["scale", "run"], dtype=str)
        table = pandas.concat([part for part in merge(earlier) if len(part)], ignore_index=True)
        unlist(folder, (TABLE, *DRAWN))
        write_file(folder / TABLE, table.to_csv(index=False).encode())
        redraw(name, folder)
    return folder


def as_text(table: DataFrame) -> DataFrame:
    """A table as its file has it: every entry as text, what is not known as none."""
    written = io.StringIO(table.to_csv(index=False, float_format="%.6g"))
    return pandas.read_csv(written, dtype=str, keep_default_na=False)


def table_in(folder: Path, *, as_text: bool = False) -> DataFrame:
    """The table of a results folder, perhaps with every entry as text.

    Raises Damaged if it is missing, altered, or none of ours.
    """
    if not (folder / TABLE).is_file():
        raise Damaged(f"{folder / TABLE} cannot be read as a table: it is missing")
    data = read_listed(folder, TABLE)
    how: dict[str, Any] = {"dtype": str} if as_text else {"na_values": [""], "dtype": {"run": str, "version": str}}
    try:
        table = pandas.read_csv(io.BytesIO(data), keep_default_na=False, **how)
    except ValueError as error:  # of which pandas' own are
        raise Damaged(f"{folder / TABLE} cannot be read as a table: {error}") from error
    if not {"scale", "run", "version"} <= set(table.columns):
        raise Damaged(f"{folder / TABLE} is no table of results: it lacks a column scale, run or version")
    return table


def redraw(name: str, folder: Path) -> None:
    """Figure and claims, from table.csv alone: the figure at the largest scale there is, claims at each.

    Then all of it is listed in the folder's manifest. Raises Damaged if the table is not what the manifest lists.
    """
    source = experiment(name)
    table = table_in(folder)
    unlist(folder, DRAWN)
    scales = [scale for scale in SCALES if (table.scale == scale).any()]
    save(source.figure(table[table.scale == scales[-1]]), folder / "figure")
    rows = [row for scale in scales for row in judged(source, table[table.scale == scale], scale)]
    write_json(folder / "claims.json", rows)
    enlist(folder, (TABLE, *DRAWN))


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
    """The rows of a claims.json, with the experiment. Raises Damaged if they are not what `publish` wrote."""
    rows = parse_json(path, read_listed(path.parent, path.name))
    if TABLE in listed(path.parent):
        read_listed(path.parent, TABLE)  # of which they tell
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
