"""Runs on their way home from a lent machine: a few small files that another checkout merges.

A lease ends, and what comes back from it is little: a handful of files of some megabytes. So runs are packed by worth
(first what tables are made of, then final weights, then the state of unfinished runs, then earlier checkpoints) until
the allowance is spent; what was left out is listed. A parcel is a compressed tar in numbered pieces beside
`parcel.json`, which has their sha256. It holds JSON and safetensors alone, and nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from hopscope.runs import Run
from hopscope.settings import BadInput
from hopscope.storage import TEMPORARY, Damaged, clear_errors, discard, read_json, write_file, write_json

PIECE, PIECES = 15 << 20, 4  # bytes of a piece, and how many: 60 MiB, the most that a lease hands back
ABOUT = ("config.json", "metrics.jsonl", "sessions.jsonl", "report.json", "DONE")
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
        for path, name in worth(runs):
            size = path.stat().st_size if path.suffix == ".safetensors" else 0  # weights do not compress, text does
            if packed.tell() + size + (1 << 16) > room:
                left.append(name)
            else:
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


def worth(runs: Path) -> Iterator[tuple[Path, str]]:
    """What may be packed, the most valuable first, and its name in the parcel."""
    folders = [Run(path.parent) for path in sorted(runs.glob("*/config.json"))]
    for run in folders:
        yield from ((run.path / name, f"runs/{run.path.name}/{name}") for name in ABOUT if (run.path / name).is_file())
    done, begun = [run for run in folders if run.done], [run for run in folders if not run.done]
    yield from files_of((run, run.step, True) for run in begun if run.steps)
    yield from files_of((run, run.step, False) for run in done if run.steps)
    yield from files_of((run, step, False) for run in folders for step in spread(run.steps[:-1]))


def files_of(checkpoints: Iterable[tuple[Run, int, bool]]) -> Iterator[tuple[Path, str]]:
    """The files of checkpoints; only if asked for those that training goes on from."""
    for run, step, whole in checkpoints:
        folder = run.folder(step)
        names = ["manifest.json", "model.safetensors", *(["optimizer.safetensors"] if whole else [])]
        yield from ((folder / name, f"runs/{run.path.name}/checkpoints/{folder.name}/{name}") for name in names)


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


def collect(folder: Path, runs: Path) -> list[str]:
    """Merge a parcel into a folder of runs: whatever is new, or came further than ours.

    Args:
        folder: of the parcel.
        runs: folder of run folders.

    Returns:
        Names of the folders of these runs.

    Raises:
        BadInput: it is no parcel. Damaged: a piece is missing or altered.
    """
    if not (folder / CONTENTS).is_file():
        raise BadInput(f"{folder} is no parcel: it has no {CONTENTS}; 'hopscope queue --out {folder}' makes one")
    opened = runs / f"{TEMPORARY}parcel"
    discard(opened)
    with clear_errors(runs):
        opened.mkdir(parents=True)
    try:
        unpack(pieces_of(folder), opened)
        return [path.name for path in sorted((opened / "runs").glob("*")) if merge(Run(path), Run(runs / path.name))]
    finally:
        discard(opened)


def pieces_of(folder: Path) -> bytes:
    """The parcel in one piece. Raises Damaged."""
    try:
        hashes = list(read_json(folder / CONTENTS)["parts"])
    except (TypeError, KeyError) as error:
        raise Damaged(f"{folder / CONTENTS} is altered: it names no parts") from error
    whole = b""
    for index, expected in enumerate(hashes):
        path = folder / f"part-{index}"
        if not path.is_file():
            raise Damaged(f"{path} is missing")
        part = path.read_bytes()
        if hashlib.sha256(part).hexdigest() != expected:
            raise Damaged(f"{path} is altered: its sha256 does not match")
        whole += part
    return whole


def unpack(data: bytes, folder: Path) -> None:
    """Regular files of the shapes that `worth` yields, nothing else. Raises Damaged."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                known = name.parts[:1] == ("runs",) and ".." not in name.parts and not name.is_absolute()
                if not (member.isfile() and known):
                    raise Damaged(f"the parcel holds {member.name!r}, which no parcel does")
                content = tar.extractfile(member)
                assert content is not None
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Damaged(f"the parcel cannot be unpacked: {error}") from error


def merge(came: Run, ours: Run) -> bool:
    """Put a run in its place, if it is new or came further; checkpoints that either has are kept. Whether it was."""
    if came.config.identity != came.path.name.rpartition("-")[2]:
        raise Damaged(f"the parcel's run {came.path.name} is not what its name says")
    there = (ours.path / "config.json").is_file()
    if there and (ours.done, rows(ours)) >= (came.done, rows(came)):
        return False
    if there:
        kept = {step: ours.folder(step) for step in ours.steps if step not in came.steps}
        for step, folder in kept.items():
            shutil.copytree(folder, came.folder(step))
        discard(ours.path)
    came.path.rename(ours.path)
    return True


def rows(run: Run) -> int:
    """How far it was logged."""
    path = run.path / "metrics.jsonl"
    return len(path.read_bytes().splitlines()) if path.is_file() else 0


def summary_of(folder: Path) -> str:
    """A parcel in a line."""
    about = read_json(folder / CONTENTS)
    size = sum(path.stat().st_size for path in folder.glob("part-*"))
    return json.dumps({"parts": len(about["parts"]), "MB": round(size / 1e6, 1), "left_out": len(about["left_out"])})
