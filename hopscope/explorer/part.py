"""The part of a bundle about one run, which grows as checkpoints are measured, and while the run trains."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.kept import circuit_of
from hopscope.circuits.words import paragraph
from hopscope.core.settings import BadInput
from hopscope.core.storage import listed
from hopscope.drawing.circuit_report import least_for
from hopscope.emergence.kept import emergence_of
from hopscope.emergence.onset import PASSES
from hopscope.emergence.record import LEAST
from hopscope.explorer.bundle import SIZES, Block, Lazy
from hopscope.explorer.computing import Computer
from hopscope.explorer.decoders import decoders_of
from hopscope.explorer.describing import describe, learnt, metrics, passed
from hopscope.explorer.measuring import Measured, measure, place, weights_block
from hopscope.explorer.sequences import Sequences, batch_entry
from hopscope.explorer.tour import FIRST_RUN, tour_of
from hopscope.runs.reading import vouching
from hopscope.runs.run import SHIPPED, Run, load

#: The checkpoints whose weights a bundle holds: the last, those of a tour through training, all, or given steps.
Which = Literal["last", "tour", "all"] | Collection[int]
Watch = Callable[[str], None]
QUIET = 60  # seconds without a new checkpoint, after which a run that is not done counts as stopped


class Part:
    """A run in a bundle.

    Args:
        folder: of the run, or `packaged`.
        which: checkpoints whose weights the bundle holds.
        dtype: of these weights.

    Attributes:
        entry: the run's entry in the manifest.
        blocks: by name.

    Raises:
        BadInput: the run, or a checkpoint of a given step, does not exist.
        Damaged: the run cannot be read.
    """

    def __init__(self, folder: Path | str, which: Which, dtype: str):
        self.folder, self.which, self.dtype = folder, which, dtype
        self.warned: list[str] = []
        with self.collecting_warnings():
            self.run: Run = load(folder)
            self.entry = describe(self.run, run_name(self.run, folder)) | {"warnings": self.warned}
        self.seen = Sequences.of(self.run)
        self.blocks: dict[str, Block | Lazy] = {}
        self.entry["batch"], blocks = batch_entry(self.seen, self.identity)
        self.blocks |= blocks
        self.entry["paths"] = [{"name": str(path), **path.as_dict()} for path in self.seen.paths]
        self.entry["checkpoints"] = []
        self.strengths: dict[int, Any] = {}
        self.searched: int | None = None
        self.new_checkpoints()
        self.check_steps()

    @property
    def identity(self) -> str:
        return self.run.config.identity

    @cached_property
    def computer(self) -> Computer:
        """Answers queries about the run's models."""
        return Computer(self.seen.batch, self.seen.paths, lambda step: self.run.at(step))

    def check_steps(self) -> None:
        """Raise BadInput for a given step without a checkpoint."""
        for step in self.which if not isinstance(self.which, str) else ():
            if step not in self.run.steps:
                there = ", ".join(map(str, self.run.steps))
                raise BadInput(f"{self.run.path} has no checkpoint of step {step}; it has {there or 'none yet'}")

    # Growing -----------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Read a run in training again; return whether anything changed. A run that is gone becomes an error."""
        before = self.told
        try:
            self.run = again(self.run)
            rows = self.run.rows
            self.entry |= {"done": self.run.done, "error": None}
            self.entry |= {"metrics": metrics(rows, self.run.task), "learnt": learnt(rows, self.run.task)}
            self.new_checkpoints()
        except BadInput as error:  # of which Damaged is a kind
            self.entry["error"] = str(error)
        return before != self.told

    @property
    def told(self) -> tuple[bool, str | None, int, list[tuple[int, str]]]:
        """What changes in the entry while the run trains: whether it is done, an error, rows, checkpoints."""
        return self.entry["done"], self.entry["error"], len(self.entry["metrics"]["step"]), self.told_steps

    @property
    def told_steps(self) -> list[tuple[int, str]]:
        """The checkpoints in the entry, with their states."""
        return [(checkpoint["step"], checkpoint["state"]) for checkpoint in self.entry["checkpoints"]]

    def new_checkpoints(self) -> None:
        """Update the checkpoints: add new ones, mark missing ones, and drop those that training has thinned out."""
        known = {checkpoint["step"]: checkpoint for checkpoint in self.entry["checkpoints"]}
        promised = {step for step in scheduled(self.run) if step not in self.run.steps}
        current = {step: known.get(step) or blank(step) for step in self.run.steps}
        current |= {step: blank(step) | {"state": "missing", "told": gone(self.run, step)} for step in promised}
        self.entry["checkpoints"] = [current[step] for step in sorted(current)]

    @property
    def pending(self) -> list[int]:
        """Steps that are not measured yet, newest first."""
        return [c["step"] for c in reversed(self.entry["checkpoints"]) if c["state"] == "pending"]

    @property
    def quiet(self) -> bool:
        """Whether no new checkpoint is expected: the run is done, or has had none for `QUIET` seconds."""
        newest = self.run.folder(self.run.step)
        return self.run.done or (newest.exists() and time.time() - newest.stat().st_mtime > QUIET)

    # Measuring ---------------------------------------------------------------------------------------------------

    def measure(self, step: int) -> None:
        """Measure a checkpoint; the entry of a damaged one says what is wrong."""
        entry = next(c for c in self.entry["checkpoints"] if c["step"] == step)
        held = self.holds(step)
        try:
            with self.collecting_warnings():
                found = measure(self.run, step, self.seen, self.dtype if held else "float32")
            if held:
                self.blocks[f"{self.identity}/{step}/weights"] = self.weights(step)
        except BadInput as error:
            entry |= {"state": "damaged", "told": str(error)}
        else:
            entry |= self.entered(step, found, held)
        self.find_onsets()

    def entered(self, step: int, found: Measured, held: bool) -> dict[str, Any]:
        """The entry of a measured checkpoint; its blocks are added to the bundle."""
        blocks = {"strengths": found.strengths, "patterns": found.patterns}
        named = {name: f"{self.identity}/{step}/{name}" for name, block in blocks.items() if block is not None}
        self.blocks |= {named[name]: block for name, block in blocks.items() if block is not None}
        self.strengths[step] = found.strengths.array()
        weights = f"{self.identity}/{step}/weights" if held else None
        return {
            "state": "ready",
            "weights": weights,
            "strengths": named["strengths"],
            "patterns": named.get("patterns"),
            "reference": found.reference,
            "accuracy": found.accuracy,
        }

    def holds(self, step: int) -> bool:
        """Whether the bundle holds the weights of a step; `last` means the last step that is not damaged."""
        if self.which in ("last", "tour"):
            toured = (self.entry["tour"] or ())[FIRST_RUN:] if self.which == "tour" else ()
            last = max((s for s, state in self.told_steps if state in ("pending", "ready")), default=None)
            return step == last or step in toured
        return self.which == "all" or step in self.which

    def weights(self, step: int) -> Block | Lazy:
        """The weights of a step; if the bundle holds all of them, they are read on demand."""
        block = weights_block(self.run, step, self.dtype)
        if self.which != "all":
            return block
        return Lazy(block.entry(), lambda: weights_block(self.run, step, self.dtype))

    def find_onsets(self) -> None:
        """Find the onsets of paths that ever had a strength above one half, from the checkpoints measured so far."""
        steps = sorted(self.strengths)
        if len(steps) < 2 or not self.seen.paths:
            return
        table = numpy.stack([self.strengths[step] for step in steps]).astype(float)
        strong = [index for index in range(table.shape[1]) if (table[:, index] > PASSES).any()]
        self.entry["onsets"] = {str(self.seen.paths[i]): passed(steps, table[:, i], PASSES) for i in strong}

    # Searching ---------------------------------------------------------------------------------------------------

    @property
    def whole(self) -> list[int]:
        """The steps that are measured and not damaged."""
        return [c["step"] for c in self.entry["checkpoints"] if c["state"] == "ready"]

    @property
    def wants_circuit(self) -> bool:
        """Whether to search for a circuit: the model has heads, and no newer checkpoint is expected."""
        return bool(self.seen.paths and self.whole) and max(self.whole) != self.searched and self.quiet

    def find_circuit(self, watch: Watch, given: Circuit | None = None) -> None:
        """Find the circuit of the newest measured checkpoint and its onsets; a failure becomes a warning."""
        step = max(self.whole)
        self.searched = step
        try:
            with self.collecting_warnings():
                circuit = given or circuit_of(self.run, step=step, watch=watch, place=place())
                words = paragraph(circuit, self.run.task, least_for(self.run.task, self.run.at(step)))
                self.entry["circuit"] = {**circuit.as_dict(), "step": step, "words": words}
                self.entry["emergence"] = self.emergence([found.path for found in circuit.paths], watch)
                self.find_decoders(step)
            self.entry["tour"] = tour_of(self.entry)
            self.measure_again()
        except BadInput as error:  # of which Damaged is a kind
            self.warned.append(str(error))

    def find_decoders(self, step: int) -> None:
        """Fit the decoders of a checkpoint for the page's scene, if the page can run the model."""
        shows = self.entry["circuit"]["paths"] and self.entry["model"]["native"]
        if shows and (found := decoders_of(self.run, step)):
            block = f"{self.identity}/{step}/decoders"
            self.blocks[block] = found.read
            self.entry["decoders"] = found.entry(step, block)

    def measure_again(self) -> None:
        """Mark the checkpoints of the tour to be measured again, with weights rounded as in the bundle."""
        for checkpoint in self.entry["checkpoints"]:
            if checkpoint["state"] == "ready" and not checkpoint["weights"] and self.holds(checkpoint["step"]):
                checkpoint["state"] = "pending"

    def emergence(self, paths: list[Any], watch: Watch) -> dict[str, Any] | None:
        """The paths over training; None if there are too few checkpoints, or no paths."""
        trained = self.run.config.origin is None
        if not trained or not paths or len(self.run.steps) < LEAST or self.whole != self.run.steps:
            return None
        found = emergence_of(self.run, paths, n=SIZES[1], watch=watch, place=place())
        effects = {
            str(f.path): {"effect": f.cost.effect.tolist(), "low": f.cost.low.tolist(), "high": f.cost.high.tolist()}
            for f in found.paths
            if f.cost
        }
        return {**found.as_dict(), "run": str(self.folder), "effects": effects}

    @contextmanager
    def collecting_warnings(self) -> Iterator[None]:
        """Add the warnings that are issued in this context to those of the run."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        self.warned += [said for one in caught if (said := str(one.message)) not in self.warned]


def run_name(run: Run, folder: Path | str) -> str:
    """The name of a run on the page."""
    return SHIPPED.name if run.path == SHIPPED else str(folder)


def again(run: Run) -> Run:
    """The run, read again. Raises BadInput if its folder now holds another run."""
    found = Run(run.path)
    if found.config.identity != run.config.identity:
        raise BadInput(f"{run.path} holds another run by now, {found.config.identity}: explore it anew")
    return found


def blank(step: int) -> dict[str, Any]:
    """A checkpoint's entry before it is measured."""
    unknown = dict.fromkeys(("told", "weights", "strengths", "patterns", "reference", "accuracy"))
    return {"step": step, "state": "pending", **unknown}


def scheduled(run: Run) -> list[int]:
    """The checkpoints that a finished run's manifest lists."""
    names = listed(run.path) if run.done else {}
    folders = [Path(name).parent.name for name in names if name.startswith("checkpoints/")]
    return [step for folder in folders if vouching(run.folder(step := int(folder.removeprefix("step_")))) in names]


def gone(run: Run, step: int) -> str:
    """The sentence about a missing checkpoint."""
    return f"the checkpoint of step {step} is missing, though the manifest of {run.path} lists it"
