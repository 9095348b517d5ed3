"""What experiments on circuits share: each run's circuit, and its paths over training, found once per process.

`fig5` and `appendix_c` look at the same models, `fig6`, `fig7`, `appendix_d` and `reuse` at others; a search takes
seconds to a minute, so `reproduce all` should make it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path as Files

from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.emergence.track import Emergence, follow_all
from hopscope.problem.paths import Path
from hopscope.runs.run import Run

SEQUENCES = {"quick": 16, "full": 128}  # behind curves; the paper averages 32
FALLBACK = Path(0, 0, "value[1]", "key[1]")  # what is followed where a run has no circuit


def circuit_of(run: Run, scale: str) -> Circuit:
    """The circuit of a finished run's model; at scale `quick`, which tests plumbing, from little data."""
    return found(run.path.resolve(), scale == "quick")


@cache
def found(folder: Files, quick: bool) -> Circuit:
    run = Run(folder)
    return discover(run.model, run.task, Discovery(discovery=16, selection=16, report=32) if quick else Discovery())


def accepted_paths(run: Run, scale: str) -> list[Path]:
    """The paths of its circuit; none where none was accepted."""
    circuit = circuit_of(run, scale)
    return [found.path for found in circuit.paths] if circuit.accepted else []


def used_paths(run: Run, scale: str) -> list[Path]:
    """What is followed over training: the paths that the search kept, accepted as a circuit or not."""
    return [found.path for found in circuit_of(run, scale).paths] or [FALLBACK]


def emergence_of(runs: Sequence[Run], scale: str) -> tuple[Emergence, ...]:
    """The paths that each run uses over training; every kind of path that one run has is followed in all."""
    return followed(tuple(run.path.resolve() for run in runs), scale)


@cache
def followed(folders: tuple[Files, ...], scale: str) -> tuple[Emergence, ...]:
    runs = [Run(folder) for folder in folders]
    n = SEQUENCES["quick" if scale == "quick" else "full"]
    return tuple(follow_all(runs, lambda run: used_paths(run, scale), n=n))
