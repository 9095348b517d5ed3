"""Findings about a run, kept beside it, so that each is computed once.

    runs/circuit-5a0b1c2d3e4f/    named by a hash of all that the finding depends on
      exact.json                  the finding, to the bit
      manifest.json               what it depends on, and the sha256 of every file

A finding depends on the run, on the weights of the checkpoints used, on its own settings, and on the version of the
code that made it. Different values have different folders, so a finding is never out of date. A damaged one is made
anew.
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
LOCK = ".kept.lock"  # held while a finding is written, because two processes may have made it


def weights(run: Run, steps: Iterable[int]) -> dict[str, str]:
    """The sha256 of each checkpoint's weights, by step. Raises Damaged."""
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
    """A finding about a run: read if it is kept, else made and kept.

    Args:
        run: the run; for the packaged run nothing is kept unless `place` is given.
        label: the first part of the folder's name.
        about: what the finding depends on besides the run, as JSON.
        make: computes it.
        write: its files' contents, by name.
        read: the inverse of `write`; may raise Damaged.
        place: the folder to keep it in; by default the folder that holds the run, which is always looked in first.
    """
    path = run.path.resolve()
    if path == SHIPPED.resolve() and place is None:
        return make()
    key = {"finding": label, "run": run.config.identity, **about}
    name = f"{label}-{fingerprint(key)[:12]}"
    for folder in [path.parent / name, *([place / name] if place else [])]:  # a new one is written to the last
        if folder.is_dir():
            try:
                return read(found_in(folder, key))
            except Damaged as damage:
                warnings.warn(f"{damage}; it is made anew", stacklevel=2)
    files = write(make())
    try:
        with clear_errors(folder), filelock.FileLock(folder.with_name(LOCK)):  # which makes the folder that it is in
            write_folder(folder, files, json.loads(json.dumps(key)))
    except CannotSave as reason:
        warnings.warn(f"{reason}; what was found out is not kept", stacklevel=2)
    return read(files)


def found_in(folder: Path, key: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a kept finding. Raises Damaged, also if the folder holds another finding."""
    manifest = read_manifest(folder)
    if {name: manifest.get(name) for name in key} != key:
        raise Damaged(f"{folder} is of another finding")
    return read_folder(folder, manifest["files"])
