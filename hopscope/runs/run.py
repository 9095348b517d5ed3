"""A run on disk: `config.json` first, `DONE` last, and between them nothing that a crash could leave half-written.

    runs/retrieval-0a1b2c3d4e5f/
      config.json      task, model, training; its hash is the run's identity
      sessions.jsonl   what each start ran on: versions, threads, device, compilation
      metrics.jsonl    one object per logged step
      checkpoints/     step_00000400/{model,optimizer}.safetensors and a manifest with sha256
      report.json      final measures on fresh data
      manifest.json    size and sha256 of all these (of checkpoints their manifests), and of what was found later
      DONE

Kept checkpoints lose their optimizer once two newer ones stand; the newest two are always whole. Once a run is done
its files are read only as the manifest lists them; one that was finished before there were manifests is read as it is,
and is called unverified.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import filelock
import safetensors
import safetensors.torch
from torch import Tensor

from hopscope.configuration.config import Config
from hopscope.core import environment
from hopscope.core.settings import BadInput
from hopscope.core.storage import (
    MANIFEST,
    TEMPORARY,
    Busy,
    Damaged,
    append,
    clear_errors,
    discard,
    enlist,
    listed,
    parse_json,
    parse_lines,
    read_file,
    read_folder,
    read_json,
    read_listed,
    read_manifest,
    sync_file,
    write_file,
    write_folder,
    write_json,
)
from hopscope.models.base import Model
from hopscope.tasks.base import Task

if TYPE_CHECKING:
    from pandas import DataFrame

BEGINNING = ".begin"  # held while config.json is written: workers may begin a run at the same moment
FORMAT = 1
SHIPPED = Path(__file__).parents[1] / "assets" / "demo"  # packed by bench/pack_demo.py
OWN = ("config.json", "sessions.jsonl", "metrics.jsonl", "report.json", "truth.json")  # of a run, but for checkpoints
LEFTOVERS = ("pictures",)  # of a run that is no more, or never was here: they keep no other from its folder
WHOLE = 2  # newest checkpoints that keep their optimizer: one to resume from, one in case it is damaged


class Checkpoint(NamedTuple):
    """A state from which training goes on bit for bit."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    metrics_bytes: int
    metrics_sha256: str | None
    seconds: float


class Run:
    """A run folder: read by `hopscope.load`, written by `hopscope.train` alone."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.config.task.name()}, step {self.step}{', done' if self.done else ''})"

    # Reading -------------------------------------------------------------------------------------------------

    @cached_property
    def config(self) -> Config:
        """Task, architecture and training. Raises BadInput if the folder is no run."""
        if not (self.path / "config.json").is_file():
            raise BadInput(f"{self.path} is not a run folder: it has no config.json")
        stored = read_json(self.path / "config.json")  # it vouches for itself, by its identity
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise BadInput(f"{self.path / 'config.json'} is of another format than this version's, {FORMAT}")
        config = Config.from_dict(stored)
        if config.identity != stored.get("identity"):
            raise Damaged(f"{self.path / 'config.json'} is altered: its settings do not match its identity")
        return config

    @property
    def task(self) -> Task:
        """What the model was trained on."""
        return self.config.task

    @property
    def done(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / "DONE").is_file()

    @property
    def verified(self) -> bool | None:
        """Whether a manifest vouches for the run; None while it is not done. Raises Damaged if a small file differs."""
        if not self.done:
            return None
        for name in (names := listed(self.path)):
            if name in OWN:
                self.read(name)
        return "config.json" in names

    def read(self, name: str) -> bytes:
        """One of the run's own files; if it is done, as its manifest lists it. Raises Damaged."""
        path = self.path / name
        return read_listed(self.path, name) if self.done else read_file(path) if path.exists() else b""

    def read_lines(self, name: str) -> list[dict[str, Any]]:
        """The objects of one that is JSON lines; none if it is not there yet. Raises Damaged."""
        return parse_lines(self.path / name, self.read(name))

    @property
    def steps(self) -> list[int]:
        """The steps whose weights are on disk."""
        folders = (self.path / "checkpoints").glob("step_*")
        return sorted(int(f.name[5:]) for f in folders if re.fullmatch(r"step_\d+", f.name))

    @property
    def step(self) -> int:
        """The newest of them; 0 if there is none."""
        return max(self.steps, default=0)

    def at(self, step: int) -> Model:
        """The model as it was after `step` updates. Raises Damaged if the checkpoint is not what was written."""
        if step not in self.steps:
            raise BadInput(f"{self.path} has no checkpoint of step {step}; it has {', '.join(map(str, self.steps))}")
        _, [weights] = self.stored(step, "model")
        model = self.config.model.build(self.task)
        try:
            model.load_state_dict(weights, strict=True)
        except RuntimeError as error:
            raise Damaged(f"{self.folder(step)} holds the weights of another model") from error
        return model.eval()

    @cached_property
    def model(self) -> Model:
        """The newest model, on the CPU."""
        if not self.steps:
            raise BadInput(f"{self.path} has no checkpoint yet; train it with the command that made it")
        return self.at(self.step)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The logged steps as dictionaries."""
        return self.read_lines("metrics.jsonl")

    @property
    def metrics(self) -> DataFrame:
        """The logged steps as a table: step, train_loss, val_loss, one column per hop."""
        import pandas

        flat = [
            {**{k: v for k, v in row.items() if k not in ("hop_losses", "measures")}, **row["hop_losses"]}
            for row in self.rows
        ]
        return pandas.DataFrame(flat)

    @property
    def report(self) -> dict[str, Any] | None:
        """Final measures on fresh data; None while the run is not done."""
        return parse_json(self.path / "report.json", self.read("report.json")) if self.done else None

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """What each start of the run ran on."""
        return self.read_lines("sessions.jsonl")

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """What differs between sessions since the last start from nothing: by entry, its value before and after."""
        sessions = self.sessions
        begun = max((i for i, s in enumerate(sessions) if s["from_step"] == 0), default=0)
        return environment.changes([session["environment"] for session in sessions[begun:]])

    @property
    def bit_exact(self) -> bool:
        """Whether nothing that its bits depend on changed; what was not recorded then is not held against it."""
        return not self.changed

    def summary(self) -> dict[str, Any]:
        """What `hopscope show --json` prints (docs/contracts.md)."""
        last = self.report or next(reversed(self.rows), {})
        manifest = read_manifest(self.folder(self.step)) if self.steps else {}
        return {
            "config": {"identity": self.config.identity, **self.config.as_dict()},
            "done": self.done,
            "step": self.step,
            "loss": last.get("loss", last.get("val_loss")),
            "hop_losses": last.get("hop_losses"),
            "accuracy": last.get("accuracy"),
            "parameters": self.config.model.build(self.task).n_parameters,
            "seconds": manifest.get("seconds"),
            "bit_exact": self.bit_exact,
            "verified": self.verified,
        }

    # Writing -------------------------------------------------------------------------------------------------

    def folder(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step_{step:08d}"

    @classmethod
    def create(cls, path: Path | str, config: Config) -> Run:
        """The run of this configuration in this folder, new or begun. Raises BadInput if another's stands there."""
        run = cls(path)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            ours = (TEMPORARY, BEGINNING)
            strangers = [f for f in run.path.iterdir() if not f.name.startswith(ours) and f.name not in LEFTOVERS]
            begun = (run.path / "config.json").is_file()  # asked last: a worker beside us may have begun it just now
        except OSError as error:
            raise BadInput(f"could not make the folder {run.path}: {error.strerror}; choose another") from error
        if strangers and not begun:
            raise BadInput(f"{run.path} holds files but no run; choose a new or empty folder")
        if not begun:
            with clear_errors(run.path / BEGINNING), filelock.FileLock(run.path / BEGINNING):
                if not (run.path / "config.json").is_file():
                    values = {"format": FORMAT, "identity": config.identity, **config.as_dict()}
                    write_json(run.path / "config.json", values)
        if difference := config.difference(run.config):
            raise BadInput(f"{run.path} holds another run ({difference}); choose another folder")
        return run

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one process that writes here; clears what a killed one left half-written."""
        lock = filelock.FileLock(self.path / ".lock")
        with clear_errors(self.path / ".lock"):
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout as error:  # an OSError too, so it must be caught first
                raise Busy(f"another process is training in {self.path}; wait for it, or stop it") from error
        try:
            with clear_errors(self.path / "checkpoints"):
                (self.path / "checkpoints").mkdir(exist_ok=True)
            for folder in (self.path, self.path / "checkpoints"):
                for leftover in folder.glob(f"{TEMPORARY}*"):
                    discard(leftover)
            yield
        finally:
            lock.release()

    def begin_session(self, about: Mapping[str, Any], step: int) -> None:
        """Record what this start runs on; warn if an earlier one ran on something else."""
        path = self.path / "sessions.jsonl"
        data = path.read_bytes() if path.is_file() else b""
        if data and not data.endswith(b"\n"):  # the last start was killed while it wrote this very line
            write_file(path, data[: data.rfind(b"\n") + 1])
        before = self.changed
        append(path, (json.dumps({"from_step": step, "environment": about}) + "\n").encode())
        sync_file(path)
        if new := {name: values for name, values in self.changed.items() if before.get(name) != values}:
            told = "; ".join(environment.in_words(name, *values) for name, values in new.items())
            warnings.warn(
                f"this run was begun with other {', '.join(new)}: it goes on, but is no longer bit-exact ({told})",
                stacklevel=2,
            )

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one row to metrics.jsonl."""
        append(self.path / "metrics.jsonl", (json.dumps(row, allow_nan=False) + "\n").encode())

    def save(self, step: int, model: Mapping[str, Tensor], optimizer: Mapping[str, Tensor], seconds: float) -> None:
        """A complete checkpoint, durable when this returns; then thin out older ones. Raises CannotSave."""
        files = {
            "model.safetensors": safetensors.torch.save(on_cpu(model)),
            "optimizer.safetensors": safetensors.torch.save(on_cpu(optimizer)),
        }
        rows = self.path / "metrics.jsonl"
        about = {
            "identity": self.config.identity,
            "step": step,
            "metrics_bytes": sync_file(rows),
            "metrics_sha256": hashlib.sha256(rows.read_bytes()).hexdigest(),
            "seconds": round(seconds, 3),
        }
        write_folder(self.folder(step), files, about)
        for older in self.steps[:-WHOLE]:
            if self.config.training.is_kept(older):
                discard(self.folder(older) / "optimizer.safetensors")
            else:
                discard(self.folder(older))

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint; warns about, and passes over, damaged ones. Raises Damaged if all are."""
        damages: list[Damaged] = []
        for step in reversed(self.steps):
            try:
                checkpoint = self.checkpoint(step)
            except Damaged as damage:
                damages.append(damage)
                continue
            for found in damages:
                warnings.warn(f"{found}; going on from step {step} instead", stacklevel=2)
            return checkpoint
        if damages:
            raise Damaged(f"{damages[0]}; no checkpoint in {self.path} is whole: delete the folder to start anew")
        return None

    def checkpoint(self, step: int) -> Checkpoint:
        """A state to resume from. Raises Damaged."""
        manifest, [model, optimizer] = self.stored(step, "model", "optimizer")
        return Checkpoint(
            step, model, optimizer, manifest["metrics_bytes"], manifest.get("metrics_sha256"), manifest["seconds"]
        )

    def stored(self, step: int, *names: str) -> tuple[dict[str, Any], list[dict[str, Tensor]]]:
        """A checkpoint's manifest and some of its tensors. Raises Damaged, also for another run's or step's."""
        folder = self.folder(step)
        manifest = read_manifest(folder)
        mine = self.config.identity
        if manifest.get("step") != step or manifest.get("identity", mine) != mine:
            raise Damaged(f"{folder / MANIFEST} is of another run or step")
        files = read_folder(folder, [f"{name}.safetensors" for name in names])
        try:
            tensors = [safetensors.torch.load(data) for data in files.values()]
        except safetensors.SafetensorError as error:
            raise Damaged(f"{folder} holds what is no safetensors: {error}") from error
        if self.done:  # a checkpoint that is whole, but not the one that was there when the run came to its end
            read_listed(self.path, vouching(folder))
        return manifest, tensors

    def rewind(self, metrics_bytes: int, sha256: str | None) -> None:
        """Forget rows that were logged after a checkpoint. Raises Damaged if rows before it are missing or altered."""
        path = self.path / "metrics.jsonl"
        data = path.read_bytes() if path.is_file() else b""
        if len(data) < metrics_bytes:
            raise Damaged(f"{path} is cut short: {len(data)} bytes, though its checkpoint saw {metrics_bytes}")
        if sha256 is not None and hashlib.sha256(data[:metrics_bytes]).hexdigest() != sha256:
            raise Damaged(f"{path} is altered: its sha256 does not match what its checkpoint saw")
        if len(data) > metrics_bytes:
            write_file(path, data[:metrics_bytes])

    def forget_after(self, step: int) -> None:
        """Remove checkpoints newer than the one to go on from: they are damaged."""
        for newer in self.steps:
            if newer > step:
                discard(self.folder(newer))

    def finish(self, report: Mapping[str, Any]) -> None:
        """Write the report, then `seal`; a checkpoint that an interruption left off the schedule goes."""
        for step in self.steps[:-1]:
            if not self.config.training.is_kept(step):
                discard(self.folder(step))
        write_json(self.path / "report.json", report)
        self.seal()

    def seal(self) -> None:
        """List the run's own files in its manifest, as they are now, then write DONE; what was listed later stays."""
        names = [name for name in OWN if (self.path / name).is_file()]
        names += [vouching(self.folder(step)) for step in self.steps]
        gone = [name for name in listed(self.path) if name in OWN or name.startswith("checkpoints/")]
        enlist(self.path, names, instead_of=gone, identity=self.config.identity)
        if not self.done:
            write_file(self.path / "DONE", b"")


def vouching(checkpoint: Path) -> str:
    """A checkpoint's manifest, which vouches for its tensors, as its run's manifest lists it."""
    return f"checkpoints/{checkpoint.name}/{MANIFEST}"


def on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def load(path: Path | str) -> Run:
    """The run in a folder. Raises BadInput if there is none.

    `demo`, where no run has that name, is the finished demo that comes with the package: D = 2 in 4 layers, with
    checkpoints from before, while and after its heads emerge.

    >>> load("demo").task.n_hops
    2
    """
    run = Run(SHIPPED if is_shipped(path) else path)
    _ = run.config
    return run


def is_shipped(path: Path | str) -> bool:
    """Whether a path means the run that comes with the package: what was found out about it may lie under its name."""
    return str(path) == SHIPPED.name and not (Path(path) / "config.json").exists()


def place_for(path: Path, kind: str) -> Path:
    """Where what is found out about a run goes if nobody says: into its folder, or beside the one of the package."""
    return Path(f"{SHIPPED.name}-{kind}") if is_shipped(path) else path
