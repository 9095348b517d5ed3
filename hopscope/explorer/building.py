"""Building a bundle: the newest step first, so that there is something to see at once, and the rest while one looks.

Whoever exports a page builds it whole. The server builds in a thread, and publishes a new revision of the manifest
whenever something is added; while a run trains it looks again every few seconds.
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

LOOK = 2.0  # seconds between looks at runs that still train
MOST_FIELDS = 4096  # of a question
Job = tuple[str, Callable[[], None]]


class Builder:
    """Builds a bundle of some runs.

    Args:
        folders: of runs, or `packaged`.
        which: checkpoints whose weights the bundle holds.
        dtype: of these, float32 or float16.
        results: folders of results whose claims it holds.
        opens: the view that the page opens on; None: the scene of the first run, if there is one.
        circuits: ones that are known already, by their run's identity.
        watch: told in words what is being done.

    Raises:
        BadInput: there is no such run, one is given twice, or a step is not there. Damaged: a run cannot be read.
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

    # What there is -----------------------------------------------------------------------------------------------

    def publish(self, told: str, complete: bool = False) -> None:
        """Make what there is now the bundle; told is what is being done next."""
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
            "progress": {"told": told, "done": total - left, "of": total, "complete": complete},
            "replacements": WORDS,
            "runs": [part.entry for part in self.parts],
            "claims": self.shown.claims if self.shown else None,
            "counts": self.shown.counts if self.shown else None,
            "opens": self.opens,
            "blocks": entries(blocks),
        }
        self.text = json.dumps(manifest, separators=(",", ":"), allow_nan=False)
        self.bundle = Bundle(json_of(self.text), blocks)  # a copy: entries go on growing

    def part(self, identity: str) -> Part:
        """A run's part. Raises BadInput for one that is not in the bundle."""
        for part in self.parts:
            if part.identity == identity:
                return part
        raise BadInput(f"there is no run {identity!r} here; there are {', '.join(p.identity for p in self.parts)}")

    def answer(self, query: str) -> dict[str, Any]:
        """What PyTorch answers to a question, written as a query string. Raises BadInput, Damaged."""
        try:
            values = parse_qs(query, max_num_fields=MOST_FIELDS, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError as error:
            raise BadInput("a question must be written such as run=…&step=0&off=…") from error
        part = self.part(values.get("run", [""])[-1])
        with self.one_at_a_time:
            return {"run": part.identity, **part.computer.answer(Ask.parse(values), part.entry["circuit"])}

    # Work --------------------------------------------------------------------------------------------------------

    def build(self) -> Bundle:
        """Do all there is to do now."""
        for told, job in self.jobs():
            self.publish(told)
            self.watch(told)
            job()
            if self.stopped.is_set():
                break
        self.publish("", complete=all(part.run.done for part in self.parts))
        return self.bundle

    def jobs(self) -> Iterator[Job]:
        """What is to be done, one after the other: newest steps, the others, then circuits."""
        for part in self.parts:
            if part.pending and not part.strengths:
                yield self.measuring(part)
        yield from self.measurings()
        for part in self.parts:
            if part.wants_circuit:
                yield f"{part.folder}: looking for its circuit", lambda part=part: self.search(part)  # type: ignore[misc]
        yield from self.measurings()  # of steps that the tour stops at

    def measurings(self) -> Iterator[Job]:
        """All steps that are not measured yet, in turn from the run that has most of them."""
        while waiting := [part for part in self.parts if part.pending]:
            yield self.measuring(max(waiting, key=lambda part: len(part.pending)))

    def measuring(self, part: Part) -> Job:
        """The newest step of a run that is not measured yet."""
        step, total = part.pending[0], len(part.entry["checkpoints"])
        at = total - len(part.pending) + 1
        return f"{part.folder}: measuring step {step}, checkpoint {at} of {total}", lambda: part.measure(step)

    def search(self, part: Part) -> None:
        """The circuit of a run; one that is known is taken once."""
        part.find_circuit(self.watch, self.circuits.pop(part.identity, None))

    def follow(self) -> None:
        """Build, and go on as long as a run trains, until stopped."""
        self.build()
        while not self.stopped.wait(LOOK):
            growing = [part for part in self.parts if not part.entry["done"] or part.entry["error"]]
            changed = [part.refresh() for part in growing]
            if any(changed) or any(part.wants_circuit for part in growing):
                self.build()
            if all(part.run.done and not part.entry["error"] for part in self.parts):
                return

    def stop(self) -> None:
        """End `build` after what it is at, and `follow`."""
        self.stopped.set()


def check_distinct(parts: Sequence[Part]) -> None:
    """Raise BadInput if a run is given twice."""
    seen: dict[str, Part] = {}
    for part in parts:
        twin = seen.setdefault(part.identity, part)
        if twin is not part:
            raise BadInput(f"{twin.folder} and {part.folder} are the same run, {part.identity}: give each run once")
