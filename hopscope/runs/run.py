"""A run on disk: `config.json` is written first, `DONE` last, and a crash in between leaves no half-written file.

    runs/retrieval-0a1b2c3d4e5f/
      config.json      task, model, training; its hash is the run's identity
      sessions.jsonl   the environment of each session: versions, threads, device, compilation
      metrics.jsonl    one object per logged step
      checkpoints/     step_00000400/{model,optimizer}.safetensors and a manifest with sha256
      report.json      final numbers on fresh data
      manifest.json    size and sha256 of all these (of checkpoints their manifests), and of findings added later
      DONE

An older checkpoint loses its optimizer state once there are two newer ones; the newest two are complete. Once a run is
done, its files are read only if they match the manifest. A run that was finished before manifests existed is read as it
is, and called unverified.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import safetensors
import safetensors.torch
from torch import Tensor

from hopscope.configuration.config import Config
from hopscope.core import catalogue, environment
from hopscope.core.settings import BadInput
from hopscope.core.storage import (
    TEMPORARY,
    alone,
    append,
    clear_errors,
    discard,
    enlist,
    listed,
    sync_file,
    write_file,
    write_folder,
    write_json,
)
from hopscope.runs.demand import check
from hopscope.runs.reading import FORMAT, OWN as OWN, RunReader, check_seen, vouching

BEGINNING = ".begin"  # held while config.json is written: several workers may begin a run at the same moment
SHIPPED = Path(__file__).parents[1] / "assets" / "packaged"  # packed by bench/pack_demo.py
LEFTOVERS = ("pictures",)  # may remain of a removed run, and do not keep another run from the folder
WHOLE = 2  # newest checkpoints that keep their optimizer: one to resume from, one in case that is damaged


class Run(RunReader):
    """A run folder: read by `hopscope.load`, written by `hopscope.train` alone."""

    @classmethod
    def create(cls, path: Path | str, config: Config) -> Run:
        """The run of this configuration in this folder, new or begun. Raises BadInput if another run is there."""
        if is_shipped(path):
            raise BadInput(f"{path} is the name of the run that comes with the package; choose another folder")
        run = cls(path)
        if not os.path.isfile(run.path / "config.json"):  # False also for a folder that may not be read
            check(config)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            ours = (TEMPORARY, BEGINNING)
            strangers = [f for f in run.path.iterdir() if not f.name.startswith(ours) and f.name not in LEFTOVERS]
            begun = (run.path / "config.json").is_file()  # checked last: another worker may have begun it meanwhile
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
        """Hold the run's lock, and remove what a killed process left half-written. Raises Busy if it is held."""
        with alone(self.path / ".lock", f"another process is training in {self.path}; wait for it, or stop it"):
            with clear_errors(self.path / "checkpoints"):
                (self.path / "checkpoints").mkdir(exist_ok=True)
            for folder in (self.path, self.path / "checkpoints"):
                for leftover in folder.glob(f"{TEMPORARY}*"):
                    discard(leftover)
            yield

    def begin_session(self, about: Mapping[str, Any], step: int, experiment: str | None = None) -> None:
        """Record this session's environment; warn if an earlier session had another one.

        If `experiment` comes from outside, the sha256 of its files is recorded too; the run's bits do not depend on it.
        """
        path = self.path / "sessions.jsonl"
        data = path.read_bytes() if path.is_file() else b""
        if data and not data.endswith(b"\n"):  # the last session was killed while writing this line
            write_file(path, data[: data.rfind(b"\n") + 1])
        before = self.changed
        asked = catalogue.hashes("experiments", experiment) if experiment else {}
        session = {"from_step": step, "environment": about, **({"experiment": asked} if asked else {})}
        append(path, (json.dumps(session) + "\n").encode())
        sync_file(path)
        if new := {name: values for name, values in self.changed.items() if before.get(name) != values}:
            listing = "; ".join(environment.in_words(name, *values) for name, values in new.items())
            warnings.warn(
                f"this run was begun with other {', '.join(new)}: it goes on, but is no longer bit-exact ({listing})",
                stacklevel=2,
            )

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one row to metrics.jsonl."""
        append(self.path / "metrics.jsonl", (json.dumps(row, allow_nan=False) + "\n").encode())

    def save(self, step: int, model: Mapping[str, Tensor], optimizer: Mapping[str, Tensor], seconds: float) -> None:
        """Save a checkpoint, durable on return, and thin out older ones. Raises CannotSave."""
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

    def rewind(self, metrics_bytes: int, sha256: str | None) -> None:
        """Drop rows logged after a checkpoint. Raises Damaged if rows before it are missing or altered."""
        path = self.path / "metrics.jsonl"
        data = path.read_bytes() if path.is_file() else b""
        check_seen(path, data, metrics_bytes, sha256, "its checkpoint")
        if len(data) > metrics_bytes:
            write_file(path, data[:metrics_bytes])

    def forget_after(self, step: int) -> None:
        """Remove checkpoints newer than the one to continue from."""
        for newer in self.steps:
            if newer > step:
                discard(self.folder(newer))

    def finish(self, report: Mapping[str, Any]) -> None:
        """Remove the checkpoint that an interruption left, if it is not scheduled; write the report; then `seal`."""
        for step in self.steps[:-1]:
            if not self.config.training.is_kept(step):
                discard(self.folder(step))
        write_json(self.path / "report.json", report)
        self.seal()

    def seal(self) -> None:
        """List the run's own files in its manifest, as they are now, then write DONE; findings stay listed."""
        names = [name for name in OWN if (self.path / name).is_file()]
        names += [vouching(self.folder(step)) for step in self.steps]
        gone = [name for name in listed(self.path) if name in OWN or name.startswith("checkpoints/")]
        enlist(self.path, names, instead_of=gone, identity=self.config.identity)
        if not self.done:
            write_file(self.path / "DONE", b"")


def on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def load(path: Path | str) -> Run:
    """The run in a folder. Raises BadInput if there is none; warns if files from outside that it used have changed.

    `packaged` is the finished run that comes with the package: D = 2 in 4 layers, with checkpoints from before, during
    and after the emergence of its heads. The name always means that run; no other run can have a folder of that name.

    >>> load("packaged").task.n_hops
    2
    """
    if not isinstance(path, str | Path):
        raise BadInput(f"a run is given as the path of its folder; got {path!r}")
    run = Run(SHIPPED if is_shipped(path) else path)
    _ = run.config
    run.compare_plugins()
    return run


def is_shipped(path: Path | str) -> bool:
    """Whether a name means the packaged run; folders of that name do not matter."""
    return str(path) == SHIPPED.name


def place_for(path: Path, kind: str) -> Path:
    """The default folder for findings about a run: the run's own, or `packaged-…` for the packaged run."""
    return Path(f"{SHIPPED.name}-{kind}") if is_shipped(path) else path
