"""Circuits are searched for once and kept beside their runs.

A search takes seconds to minutes, and several experiments, the report and the explorer's page need the circuits of the
same models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hopscope.circuits.circuit import LOG, VERSION, Circuit
from hopscope.circuits.discovery import Discovery, discover
from hopscope.core.exact import plain, restored
from hopscope.core.storage import to_json
from hopscope.core.strangers import json_of
from hopscope.runs.kept import EXACT, kept, weights
from hopscope.runs.run import Run


def circuit_of(
    run: Run,
    settings: Discovery | None = None,
    *,
    step: int | None = None,
    watch: Callable[[str], None] = lambda _: None,
    place: Path | None = None,
) -> Circuit:
    """The circuit of a run's model: the one that is kept, or else the result of a new search.

    Args:
        run: a run, trained, built or imported; its circuit is kept in `circuit-…` beside its folder.
        settings: the settings of the search; None stands for the defaults.
        step: the step of the checkpoint; None stands for the newest.
        watch: called with a description of each step of a new search.
        place: the folder to keep it in; by default the folder that holds the run.

    Raises:
        Damaged: there is no such checkpoint, or it is not what was written.
    """
    how, at = settings or Discovery(), run.step if step is None else step
    about: dict[str, Any] = {"weights": weights(run, [at]), "settings": how.identifying(), "version": VERSION}
    return kept(run, "circuit", about, lambda: discover(run.at(at), run.task, how, watch), files_of, circuit_in, place)


def files_of(circuit: Circuit) -> dict[str, bytes]:
    """circuit.json and its proof log, as `hopscope circuit` writes them, and the circuit to the bit."""
    exact = {name: value for name, value in plain(circuit).items() if name != "log"}
    return circuit.files() | {EXACT: to_json(exact)}


def circuit_in(files: dict[str, bytes]) -> Circuit:
    """The inverse of `files_of`. Raises Damaged."""
    return restored(Circuit, json_of(files[EXACT]), log=[json_of(line) for line in files[LOG].splitlines()])
