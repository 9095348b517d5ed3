"""What was found out about a run, kept beside it: whoever asks first has it made, everybody else reads it.

    runs/circuit-5a0b1c2d3e4f/    named after all that the finding depends on
      exact.json                  the finding, to the bit
      manifest.json               what it depends on, and the sha256 of every file

A finding depends on the run, on the very weights that were looked at, on how it was made, and on the version of what
made it. So one is never out of date: another question has another folder. A damaged one is made anew.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import filelock

from hopscope.core.storage import (
    CannotSave,
    Damaged,
    clear_errors,
    fingerprint,
    read_folder,
    read_manifest,
    write_folder,
)
from hopscope.runs.run import SHIPPED, Run

T = TypeVar("T")
EXACT = "exact.json"
LOCK = ".kept.lock"  # held while a finding is written: two processes may have made it


def weights(run: Run, steps: Iterable[int]) -> dict[str, str]:
    """By step, the sha256 of a checkpoint's weights. Raises Damaged."""
    files = {step: read_manifest(run.folder(step))["files"] for step in steps}
    return {str(step): listed["model.safetensors"]["sha256"] for step, listed in files.items()}


def kept(
    run: Run,
    label: str,
    about: Mapping[str, Any],
    make: Callable[[], T],
    write: Callable[[T], dict[str, bytes]],
    read: Callable[[dict[str, bytes]], T],
    place: Path | None = None,
) -> T:
    """A finding about a run: read if it was made before, else made and kept.

    Args:
        run: about which; of the run that comes with the package nothing is kept, but where a place is given.
        label: first part of the folder's name.
        about: all that the finding depends on beside the run, as JSON.
        make: makes it.
        write: its files, by name.
        read: the inverse of `write`; may raise Damaged.
        place: the folder in which it is kept; by default the one that the run is in, where it is looked for first.
    """
    path = run.path.resolve()
    if path == SHIPPED.resolve() and place is None:
        return make()
    key = {"finding": label, "run": run.config.identity, **about}
    name = f"{label}-{fingerprint(key)[:12]}"
    for folder in [path.parent / name, *([place / name] if place else [])]:  # the last of them is written to
        if folder.is_dir():
            try:
                return read(found_in(folder, key))
            except Damaged as damage:
                warnings.warn(f"{damage}; it is made anew", stacklevel=2)
    files = write(make())
    try:
        with clear_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
        with clear_errors(folder), filelock.FileLock(folder.with_name(LOCK)):
            write_folder(folder, files, json.loads(json.dumps(key)))
    except CannotSave as reason:
        warnings.warn(f"{reason}; what was found out is not kept", stacklevel=2)
    return read(files)


def found_in(folder: Path, key: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a finding. Raises Damaged, also where it is of another."""
    manifest = read_manifest(folder)
    if {name: manifest.get(name) for name in key} != key:
        raise Damaged(f"{folder} is of another finding")
    return read_folder(folder, manifest["files"])
