"""Measurements of emergence, kept beside the run so that each is made only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path as Folder
from typing import Any

from pandas import DataFrame

from hopscope.core.exact import plain, restored
from hopscope.core.storage import to_json
from hopscope.core.strangers import json_of
from hopscope.emergence.track import SAMPLES, Emergence, follow
from hopscope.problem.paths import Path
from hopscope.runs.kept import EXACT, kept, weights
from hopscope.runs.run import Run

#: Version of the measurement and of what is computed from it; raised whenever results may change.
VERSION = 2
ASKED: dict[str, Any] = {"seed": 0, "null": "uniform"}


def emergence_of(
    run: Run,
    paths: Sequence[Path],
    *,
    n: int = 256,
    watch: Callable[[str], None] = lambda _: None,
    place: Folder | None = None,
) -> Emergence:
    """As `follow`, but read if it is kept; `place` is that of `hopscope.runs.kept.kept`."""
    about = {
        "weights": weights(run, run.steps),
        "paths": [str(path) for path in dict.fromkeys(paths)],
        "settings": {"n": n, **ASKED, "samples": SAMPLES},
        "version": VERSION,
    }

    def read(files: dict[str, bytes]) -> Emergence:
        values = json_of(files[EXACT])
        hops = {hop: losses if hop == "step" else list(map(float, losses)) for hop, losses in values["hops"].items()}
        return restored(Emergence, values, run=str(run.path), hops=DataFrame(hops))

    make = lambda: follow(run, paths, n=n, watch=watch, **ASKED)  # noqa: E731
    return kept(run, "emergence", about, make, files_of, read, place)


def files_of(emergence: Emergence) -> dict[str, bytes]:
    """The files that are kept: the whole value, to the bit, except for the path of its run."""
    values = {name: value for name, value in vars(emergence).items() if name != "run"}
    return {EXACT: to_json(plain(values | {"hops": emergence.hops.to_dict("list")}))}
