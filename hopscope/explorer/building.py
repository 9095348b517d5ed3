"""Build a bundle, the newest checkpoint of each run first, so that a page has something to show at once.

An exported page is built completely. The server builds in a thread and publishes a new revision of the manifest after
each step; while a run trains, it is read again every few seconds.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from hopscope.circuits.circuit import Circuit
from hopscope.core.environment import code_version
from hopscope.core.settings import BadInput
from hopscope.core.strangers import json_of
from hopscope.explorer.bundle import FORMAT, Block, Bundle, Lazy, entries
from hopscope.explorer.claims import claims_of
from hopscope.explorer.computing import WORDS, Ask
from hopscope.explorer.part import Part, Watch, Which

LOOK = 2.0  # seconds between readings of runs that still train
MOST_FIELDS = 4096  # most fields of a query
Job = tuple[str, Callable[[], None]]


class Builder:
    """Builds a bundle of some runs.

    Args:
        folders: of runs, or `packaged`.
        which: checkpoints whose weights the bundle holds.
        dtype: of these weights, float32 or float16.
        results: folders of results whose claims it holds.
        opens: the view that the page opens on; None for the scene of the first run, if there is one.
        circuits: known circuits, by the identity of their run.
        watch: called with a description of each stage.

    Raises:
        BadInput: a run or a step does not exist, or a run is given twice.
        Damaged: a run cannot be read.
    """

    def __init__(
        self,
        folders: Sequence[Path | str],
        *,
        which: Which = "last",
        dtype: str = "float16",
        results: Path | Sequence[Path] | None = None,
        opens: str | None = None,
        circuits: Mapping[str, Circuit] | None = None,
        watch: Watch = lambda _: None,
    ):
        self.watch, self.circuits = watch, dict(circuits or {})
        places = [results] if isinstance(results, Path) else results
        self.opens, self.shown = opens, None if places is None else claims_of(*places)
        self.parts = [Part(folder, which, dtype) for folder in folders]
        check_distinct(self.parts)
        self.revision, self.done = 0, 0
        self.stopped, self.one_at_a_time = threading.Event(), threading.Lock()
        self.publish("reading")

    # The bundle --------------------------------------------------------------------------------------------------

    def publish(self, stage: str, complete: bool = False) -> None:
        """Publish what is built so far as a new revision of the bundle; `stage` describes the next step."""
        self.revision += 1
        blocks: dict[str, Block | Lazy] = dict(self.shown.blocks if self.shown else {})
        for part in self.parts:
            blocks |= part.blocks
        left = sum(len(part.pending) for part in self.parts)
        total = sum(len(part.entry["checkpoints"]) for part in self.parts)
        manifest = {
            "format": FORMAT,
            "made_by": code_version(),
            "revision": self.revision,
            "progress": {"told": stage, "done": total - left, "of": total, "complete": complete},
            "replacements": WORDS,
            "runs": [part.entry for part in self.parts],
            "claims": self.shown.claims if self.shown else None,
            "counts": self.shown.counts if self.shown else None,
            "opens": self.opens,
            "blocks": entries(blocks),
        }
        self.text = json.dumps(manifest, separators=(",", ":"), allow_nan=False)
        self.bundle = Bundle(json_of(self.text), blocks)  # a copy, because entries keep growing

    def part(self, identity: str) -> Part:
        """The part of a run. Raises BadInput if the run is not in the bundle."""
        for part in self.parts:
            if part.identity == identity:
                return part
        raise BadInput(f"there is no run {identity!r} here; there are {', '.join(p.identity for p in self.parts)}")

    def answer(self, query: str) -> dict[str, Any]:
        """The answer to a query string, computed with PyTorch. Raises BadInput, Damaged."""
        try:
            values = parse_qs(query, max_num_fields=MOST_FIELDS, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError as error:
            raise BadInput("a query must be written such as run=…&step=0&off=…") from error
        part = self.part(values.get("run", [""])[-1])
        with self.one_at_a_time:
            return {"run": part.identity, **part.computer.answer(Ask.parse(values), part.entry["circuit"])}

    # Work --------------------------------------------------------------------------------------------------------

    def build(self) -> Bundle:
        """Do every job that is open now, and return the bundle."""
        for stage, job in self.jobs():
            self.publish(stage)
            self.watch(stage)
            job()
            if self.stopped.is_set():
                break
        self.publish("", complete=all(part.run.done for part in self.parts))
        return self.bundle

    def jobs(self) -> Iterator[Job]:
        """The open jobs in order: the newest step of each run, the other steps, then circuits."""
        for part in self.parts:
            if part.pending and not part.strengths:
                yield self.measuring(part)
        yield from self.measurings()
        for part in self.parts:
            if part.wants_circuit:
                yield f"{part.folder}: looking for its circuit", lambda part=part: self.search(part)  # type: ignore[misc]
        yield from self.measurings()  # of the steps of the tour

    def measurings(self) -> Iterator[Job]:
        """Jobs that measure all remaining steps; the run with the most of them is always next."""
        while waiting := [part for part in self.parts if part.pending]:
            yield self.measuring(max(waiting, key=lambda part: len(part.pending)))

    def measuring(self, part: Part) -> Job:
        """The job that measures the newest remaining step of a run."""
        step, total = part.pending[0], len(part.entry["checkpoints"])
        at = total - len(part.pending) + 1
        return f"{part.folder}: measuring step {step}, checkpoint {at} of {total}", lambda: part.measure(step)

    def search(self, part: Part) -> None:
        """Find the circuit of a run; where one is known already, it takes the place of the first search."""
        part.find_circuit(self.watch, self.circuits.pop(part.identity, None))

    def follow(self) -> None:
        """Build, and keep building while a run trains, until stopped."""
        self.build()
        while not self.stopped.wait(LOOK):
            growing = [part for part in self.parts if not part.entry["done"] or part.entry["error"]]
            changed = [part.refresh() for part in growing]
            if any(changed) or any(part.wants_circuit for part in growing):
                self.build()
            if all(part.run.done and not part.entry["error"] for part in self.parts):
                return

    def stop(self) -> None:
        """End `follow`, and `build` after its current job."""
        self.stopped.set()


def check_distinct(parts: Sequence[Part]) -> None:
    """Raise BadInput if a run is given twice."""
    seen: dict[str, Part] = {}
    for part in parts:
        twin = seen.setdefault(part.identity, part)
        if twin is not part:
            raise BadInput(f"{twin.folder} and {part.folder} are the same run, {part.identity}: give each run once")
