"""Runs on their way home from a lent machine: a few small files that another checkout merges.

A lease ends, and what comes back from it is little: a handful of files of some megabytes. So runs are packed by worth
(first what tables are made of, then final weights, then the state of unfinished runs, then earlier checkpoints) until
the allowance is spent; a checkpoint comes whole or not at all, and what was left out is listed. A parcel is a
compressed tar in numbered pieces beside `parcel.json`, which has their sha256. It holds JSON and safetensors alone, and
nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hopscope.core.settings import BadInput
from hopscope.core.storage import (
    MANIFEST,
    clear_errors,
    discard,
    read_json,
    write_file,
    write_json,
)
from hopscope.runs.integrity import damages_of_checkpoint, damages_of_run
from hopscope.runs.run import OWN, Run

PIECE, PIECES = 15 << 20, 4  # bytes of a piece, and how many: 60 MiB, the most that a lease hands back
ABOUT = (*OWN, MANIFEST, "DONE")
STORED = (MANIFEST, "model.safetensors")  # what there is of every checkpoint
CONTENTS = "parcel.json"


def pack(runs: Path, folder: Path, *, piece: int = PIECE, pieces: int = PIECES) -> list[str]:
    """Write a parcel of every run in a folder; returns what had to be left out.

    Args:
        runs: folder of run folders.
        folder: where to; files of an earlier parcel there are replaced.
        piece: bytes of each file.
        pieces: greatest number of files beside parcel.json.
    """
    packed, left, room = io.BytesIO(), [], piece * pieces
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as tar:
        for files, run, step in worth(runs):
            weights = [path for path, _ in files if path.suffix == ".safetensors"]  # they do not compress, text does
            full = packed.tell() + sum(path.stat().st_size for path in weights) + (1 << 16) > room
            if full or not is_sound(run, step):
                left += [name for _, name in files]
                continue
            for path, name in files:
                tar.add(path, name, recursive=False, filter=anonymous)
    data = packed.getvalue()
    cut = [data[i : i + piece] for i in range(0, len(data), piece)]
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for index, part in enumerate(cut):
        write_file(folder / f"part-{index}", part)
    write_json(
        folder / CONTENTS, {"parts": [hashlib.sha256(part).hexdigest() for part in cut], "left_out": sorted(left)}
    )
    for old in folder.glob("part-*"):
        if int(old.name[5:]) >= len(cut):
            discard(old)
    return left


Files = list[tuple[Path, str]]  # each with its name in the parcel
Packed = tuple[Files, Run, int | None]  # of a run; of which step, or None for what is no checkpoint


def worth(runs: Path) -> Iterator[Packed]:
    """What may be packed, the most valuable first; what belongs together, together."""
    folders = [run for path in sorted(runs.glob("[!.]*/config.json")) if is_sound(run := Run(path.parent), None)]
    for run in map(Run, sorted(path.parent for path in runs.glob("[!.]*/config.json"))):
        yield [(run.path / n, f"runs/{run.path.name}/{n}") for n in ABOUT if (run.path / n).is_file()], run, None
    done, begun = [run for run in folders if run.done], [run for run in folders if not run.done]
    yield from files_of((run, run.step, False) for run in done if run.steps)
    yield from files_of((run, run.step, True) for run in begun if run.steps)
    yield from files_of((run, step, False) for run in folders for step in spread(run.steps[:-1]))


def is_sound(run: Run, step: int | None) -> bool:
    """Whether a run without its checkpoints, or one of these, is what was written: nothing else is sent."""
    try:
        if step is not None:
            return all(damage is None for _, damage in damages_of_checkpoint(run, step))
        _ = run.report, run.rows, run.sessions  # as its manifest lists them
        return all(damage is None for _, damage in damages_of_run(run, steps=()))
    except BadInput:
        return False


def files_of(checkpoints: Iterable[tuple[Run, int, bool]]) -> Iterator[Packed]:
    """The files of each checkpoint; only if asked for those that training goes on from.

    One that a kill left without some of its files, while it was being removed, is passed over.
    """
    for run, step, whole in checkpoints:
        folder = run.folder(step)
        names = [*STORED, *(["optimizer.safetensors"] if whole else [])]
        if all((folder / name).is_file() for name in names):
            files = [(folder / name, f"runs/{run.path.name}/checkpoints/{folder.name}/{name}") for name in names]
            yield files, run, step


def spread(steps: Sequence[int]) -> list[int]:
    """Steps in an order in which any first part of them is spread over all: halves, then quarters, and so on."""
    found: list[int] = []
    parts = 2
    while len(found) < len(steps):
        for i in range(1, parts, 2):
            step = steps[min(len(steps) - 1, i * len(steps) // parts)]
            if step not in found:
                found.append(step)
        parts *= 2
        if parts > 4 * max(1, len(steps)):
            found += [step for step in steps if step not in found]
    return found


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without owner and time."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


# At home ---------------------------------------------------------------------------------------------------------


def summary_of(folder: Path) -> str:
    """A parcel in a line."""
    about = read_json(folder / CONTENTS)
    size = sum(path.stat().st_size for path in folder.glob("part-*"))
    return json.dumps({"parts": len(about["parts"]), "MB": round(size / 1e6, 1), "left_out": len(about["left_out"])})
