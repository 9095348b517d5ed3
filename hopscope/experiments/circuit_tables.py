"""What experiments on circuits share: each run's circuit, and its paths over training, computed once and kept.

`fig5` and `appendix_c` use the same models, `fig6`, `fig7`, `appendix_d` and `reuse` others. A search takes seconds to
minutes, so its result is kept beside the run (`hopscope.circuits.kept`, `hopscope.emergence.kept`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hopscope.circuits import kept as circuits
from hopscope.circuits.circuit import Circuit
from hopscope.circuits.discovery import Discovery
from hopscope.emergence import kept as emergence
from hopscope.emergence.track import Emergence, comparable_paths
from hopscope.problem.paths import Path
from hopscope.runs.run import Run
from hopscope.tasks.retrieval import Retrieval
from hopscope.theory.naming import schedules_of
from hopscope.theory.schedules import redundancy

SEQUENCES = {"quick": 16, "cpu": 64, "full": 128}  # per curve; the paper averages 32
#: Settings of searches, by scale, where they are not the defaults.
SEARCHES = {"quick": Discovery(discovery=16, selection=16, report=32)}
FALLBACK = Path(0, 0, "value[1]", "key[1]")  # the path that is followed in a run without a circuit

NONE = "none"  # the name where there is no circuit, or none that realises a schedule
NUMBERS = ("model", "by_hand", "live", "height", "reads", "ahead", "heads", "fewest")
UNSOLVED: dict[str, Any] = {"verdict": "unsolved", "name": NONE, "names": NONE, **dict.fromkeys(NUMBERS, float("nan"))}
LOSSES = {"model": "model", "by_hand": "circuit", "live": "live"}


def circuit_of(run: Run, scale: str) -> Circuit:
    """The circuit of a finished run's model, by the search settings of this scale."""
    return circuits.circuit_of(run, SEARCHES.get(scale, Discovery()))


def circuit_numbers(run: Run, scale: str) -> dict[str, Any]:
    """The circuit of a finished run's model as a row: whether it was accepted, its paths, its losses."""
    circuit = circuit_of(run, scale)
    return {
        "accepted": float(circuit.accepted),
        "paths": "; ".join(str(part.path) for part in circuit.paths),
        **{f"{name}_loss": loss.mean for name, loss in circuit.losses.items()},
    }


def paths_by_hand(run: Run, scale: str) -> list[Path]:
    """The paths of its circuit if it passes the paper's test, with all patterns set by hand (appendix E); else none."""
    circuit = circuit_of(run, scale)
    return [part.path for part in circuit.paths] if passes_by_hand(circuit) else []


def used_paths(run: Run, scale: str) -> list[Path]:
    """The paths to follow over training: those that the search kept, whether or not the circuit was accepted."""
    return [part.path for part in circuit_of(run, scale).paths] or [FALLBACK]


def emergence_of(runs: Sequence[Run], scale: str) -> list[Emergence]:
    """The paths that each run uses, over training; every kind of path in one run is followed in all."""
    n = SEQUENCES.get(scale, SEQUENCES["full"])
    every = comparable_paths(runs, lambda run: used_paths(run, scale))
    return [emergence.emergence_of(run, paths, n=n) for run, paths in zip(runs, every, strict=True)]


def passes_by_hand(circuit: Circuit) -> bool:
    """Whether the upper end of the loss with all patterns set by hand is below the threshold: the paper's test.

    The test is from appendix E. An accepted circuit must also pass with patterns as computed. A circuit without paths,
    or of a model that has not solved its task, never passes.
    """
    solved = circuit.verdict in ("circuit", "partial")
    return solved and bool(circuit.paths) and circuit.losses["circuit"].high < circuit.threshold


def named(circuit: Circuit, task: Retrieval, *, by_hand: bool = False) -> dict[str, Any]:
    """A circuit as a row: verdict, losses, the algorithm that it realises, its heads, and the fewest possible heads.

    It is named if it was accepted, or with `by_hand` if it passes with patterns set by hand.
    """
    counts = passes_by_hand(circuit) if by_hand else circuit.accepted
    paths = [part.path for part in circuit.paths] if counts else []
    schedules = schedules_of(paths, task.n_hops)
    first = schedules[0] if schedules else None
    yardstick = redundancy(paths, task.n_hops, "none") if paths else None
    return {
        "verdict": circuit.verdict,
        **{name: circuit.losses[kind].mean for name, kind in LOSSES.items()},
        "name": first.name if first else NONE,
        "names": "; ".join(dict.fromkeys(schedule.name for schedule in schedules)) or NONE,
        **{name: getattr(first, name) if first else float("nan") for name in ("height", "reads", "ahead")},
        "heads": yardstick.heads if yardstick else float("nan"),
        "fewest": yardstick.fewest_heads if yardstick else float("nan"),
    }
