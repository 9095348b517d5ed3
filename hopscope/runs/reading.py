"""Reading a run folder; every file is checked as it is read. `hopscope.runs.run` describes the files."""

from __future__ import annotations

import hashlib
import re
import warnings
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import safetensors
import safetensors.torch
from torch import Tensor

from hopscope.configuration.config import Config
from hopscope.core import catalogue, environment, outside
from hopscope.core.settings import BadInput
from hopscope.core.storage import (
    MANIFEST,
    Damaged,
    listed,
    parse_json,
    parse_lines,
    parse_shaped,
    read_file,
    read_folder,
    read_json,
    read_listed,
    read_manifest,
)
from hopscope.core.strangers import Number, misfit, visible
from hopscope.models.base import Model
from hopscope.tasks.base import Task

if TYPE_CHECKING:
    from pandas import DataFrame

FORMAT = 1
#: Shapes of the files' values. Rows of models without losses, or of old versions, may hold nothing else.
LOSSES = {str: (*Number, None)}
ROW = {"step": int, "train_loss?": (*Number, None), "val_loss?": (*Number, None), "hop_losses": LOSSES}
SESSION = {"from_step": int, "environment": {"plugins?": {str: str}}}
REPORT = {"step?": int, "loss?": (*Number, None), "hop_losses?": LOSSES, "accuracy?": [Number]}
RESUMABLE = {"metrics_bytes": int, "metrics_sha256?": (str, None), "seconds": Number}
OWN = ("config.json", "sessions.jsonl", "metrics.jsonl", "report.json", "truth.json")  # without checkpoints


class Checkpoint(NamedTuple):
    """A state from which training resumes bit for bit."""

    step: int
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    metrics_bytes: int
    metrics_sha256: str | None
    seconds: float


class RunReader:
    """Reads a run folder; once the run is done, files are checked against its manifest, if it has one."""

    def __init__(self, path: Path | str):
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.config.task.name()}, step {self.step}{', done' if self.done else ''})"

    def meant(self) -> str:
        """The end of a message about a missing run: the nearest name beside it, or how to get one."""
        if self.path.exists():
            return ""
        beside = [path.parent.name for path in self.path.parent.glob("*/config.json")]
        if near := get_close_matches(self.path.name, beside, 1):
            return f"; did you mean {str(self.path.with_name(near[0]))!r}?"
        return "; train one first, or look at 'packaged', the run that comes with hopscope"

    # Reading -------------------------------------------------------------------------------------------------

    @cached_property
    def config(self) -> Config:
        """Task, architecture and training. Raises BadInput if the folder is no run, Damaged if it was altered."""
        if not (self.path / "config.json").is_file():
            raise BadInput(f"{self.path} is not a run folder: it has no config.json{self.meant()}")
        stored = read_json(self.path / "config.json")  # checked by its identity below
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise BadInput(f"{self.path / 'config.json'} is of another format than this version's, {FORMAT}")
        try:
            config = Config.from_dict(stored)
        except catalogue.Unknown as error:
            used = f"it was trained with {', '.join(sorted(files))}, and " if (files := self.plugins) else ""
            raise catalogue.Unknown(f"{self.path} cannot be read: {error}; {used}{outside.ADVICE}") from error
        if config.identity != stored.get("identity"):
            raise Damaged(f"{self.path / 'config.json'} is altered: its settings do not match its identity")
        return config

    @property
    def task(self) -> Task:
        """The task that the model was trained on."""
        return self.config.task

    @property
    def done(self) -> bool:
        """Whether training has ended."""
        return (self.path / "DONE").is_file()

    @property
    def verified(self) -> bool | None:
        """Whether a manifest lists the run's files; None until it is done. Raises Damaged if a small one differs."""
        if not self.done:
            return None
        for name in (names := listed(self.path)):
            if name in OWN:
                self.read(name)
        return "config.json" in names

    def read(self, name: str) -> bytes:
        """The bytes of one of the run's files, checked by the manifest once it is done. Raises Damaged.

        They are empty as long as the run has no such file, or if it was sealed without one, as a row of the board is.
        """
        path = self.path / name
        if not path.exists() and not (self.done and name in (listed(self.path) or OWN)):
            return b""
        return read_listed(self.path, name) if self.done else read_file(path)

    def read_lines(self, name: str, shape: Any) -> list[dict[str, Any]]:
        """The objects of a JSON-lines file; empty if it does not exist yet. Raises Damaged."""
        lines = parse_lines(self.path / name, self.read(name))
        for number, line in enumerate(lines, 1):
            if (bad := misfit(line, shape)) is not None:
                raise Damaged(f"{self.path / name} is altered: in line {number}, {bad} is missing or no value for it")
        return lines

    @property
    def steps(self) -> list[int]:
        """The steps of the checkpoints on disk, ascending."""
        folders = (self.path / "checkpoints").glob("step_*")
        return sorted(int(f.name[5:]) for f in folders if re.fullmatch(r"step_\d+", f.name))

    @property
    def step(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return max(self.steps, default=0)

    def at(self, step: int) -> Model:
        """The model after `step` updates. Raises BadInput without such a checkpoint, Damaged if it was altered."""
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
        """The newest model, on the CPU. Raises BadInput if there is no checkpoint yet."""
        if not self.steps:
            raise BadInput(f"{self.path} has no checkpoint yet; train it with the command that made it")
        return self.at(self.step)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The logged rows as dictionaries."""
        return self.read_lines("metrics.jsonl", ROW)

    @property
    def metrics(self) -> DataFrame:
        """The logged rows as a table: step, train_loss, val_loss, one column per hop."""
        import pandas

        flat = [
            {**{k: v for k, v in row.items() if k not in ("hop_losses", "measures")}, **row["hop_losses"]}
            for row in self.rows
        ]
        return pandas.DataFrame(flat)

    @property
    def report(self) -> dict[str, Any] | None:
        """Final numbers on fresh data; None while the run is not done."""
        path = self.path / "report.json"
        return parse_shaped(path, self.read(path.name), REPORT) if self.done else None

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """The sessions of the run: the step each started from, and its environment."""
        return self.read_lines("sessions.jsonl", SESSION)

    @property
    def plugins(self) -> dict[str, str]:
        """The sha256 of the files from outside that the last session used, by name."""
        return next((s.get("environment", {}).get("plugins", {}) for s in reversed(self.sessions)), {})

    @property
    def environments(self) -> list[dict[str, Any]]:
        """Those of the sessions that made the weights: since the run last started from step 0."""
        sessions = self.sessions
        begun = max((i for i, s in enumerate(sessions) if s["from_step"] == 0), default=0)
        return [session["environment"] for session in sessions[begun:]]

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """Entries of the environment that changed since the run last started from step 0, as (before, after)."""
        return environment.changes(self.environments)

    @property
    def bit_exact(self) -> bool:
        """Whether no recorded entry that its bits depend on changed between sessions."""
        return not self.changed

    def summary(self) -> dict[str, Any]:
        """The value that `hopscope show --json` prints (docs/contracts.md)."""
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

    def told_of(self, step: int | None = None) -> dict[str, Any]:
        """The run and step of a finding, as its file states them under `protocol`."""
        return {"run": self.config.identity, "step": self.step if step is None else step}

    def finding(self, name: str) -> Any:
        """The value of a JSON file with a finding about the run, such as circuit.json.

        Raises Damaged if it is missing, altered, or of another run.
        """
        value = parse_json(self.path / name, read_listed(self.path, name))
        protocol = value.get("protocol") if isinstance(value, dict) else None
        of = protocol.get("run", self.config.identity) if isinstance(protocol, dict) else self.config.identity
        if of != self.config.identity:
            raise Damaged(f"{self.path / name} is of another run ({visible(str(of))[:12]}, not {self.config.identity})")
        return value

    def folder(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step_{step:08d}"

    def compare_plugins(self) -> None:
        """Warn if files from outside that the run was trained with have changed."""
        if (then := self.plugins) and then != (now := self.config.plugins):
            difference = environment.in_words("plugins", then, now)
            warnings.warn(
                f"{self.path} was trained with other versions of your files than now ({difference})", stacklevel=3
            )

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint; warns of damaged ones that are newer. Raises Damaged if all are damaged."""
        damages: list[Damaged] = []
        for step in reversed(self.steps):
            try:
                checkpoint = self.checkpoint(step)
            except Damaged as damage:
                damages.append(damage)
                continue
            for damaged in damages:
                warnings.warn(f"{damaged}; going on from step {step} instead", stacklevel=2)
            return checkpoint
        if damages:
            raise Damaged(f"{damages[0]}; no checkpoint in {self.path} is whole: delete the folder to start anew")
        return None

    def checkpoint(self, step: int) -> Checkpoint:
        """The state to resume from after `step` updates. Raises Damaged."""
        manifest, [model, optimizer] = self.stored(step, "model", "optimizer")
        if bad := misfit(manifest, RESUMABLE):
            raise Damaged(f"{self.folder(step) / MANIFEST} is altered: {bad} is missing or no value for it")
        return Checkpoint(
            step, model, optimizer, manifest["metrics_bytes"], manifest.get("metrics_sha256"), manifest["seconds"]
        )

    def stored(self, step: int, *names: str) -> tuple[dict[str, Any], list[dict[str, Tensor]]]:
        """A checkpoint's manifest and some of its tensors. Raises Damaged, also if they are another run's or step's."""
        folder = self.folder(step)
        manifest = read_manifest(folder)
        mine = self.config.identity
        if manifest.get("step") != step or manifest.get("identity", mine) != mine:
            raise Damaged(f"{folder / MANIFEST} is of another run or step")
        files = read_folder(folder, [f"{name}.safetensors" for name in names])
        try:
            tensors = [safetensors.torch.load(data) for data in files.values()]
        except safetensors.SafetensorError as error:
            raise Damaged(f"{folder} holds a file that is not safetensors: {error}") from error
        if self.done:  # also reject an intact checkpoint that replaced the one sealed with the run
            read_listed(self.path, vouching(folder))
        return manifest, tensors


def check_seen(path: Path, data: bytes, seen: Any, sha256: str | None, by: str) -> None:
    """Raise Damaged unless a run's rows begin with those that a checkpoint saw, which is named by `by`."""
    if type(seen) is not int or len(data) < seen:
        raise Damaged(f"{path} is cut short: {len(data)} bytes, though {by} saw {seen}")
    if sha256 is not None and hashlib.sha256(data[:seen]).hexdigest() != sha256:
        raise Damaged(f"{path} is altered: its sha256 does not match what {by} saw")


def vouching(checkpoint: Path) -> str:
    """The name of a checkpoint's manifest in its run's manifest; it covers the checkpoint's tensors."""
    return f"checkpoints/{checkpoint.name}/{MANIFEST}"
