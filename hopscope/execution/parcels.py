"""Runs on their way home from a lent machine: a few small files that another checkout merges.

A lease ends, and what comes back from it is little: a handful of files of some megabytes. So runs are packed by worth
(first what tables are made of, then the state of unfinished runs, then final weights, then earlier checkpoints) until
the allowance is spent; a checkpoint comes whole or not at all, and what was left out is listed. A parcel is a
compressed tar in numbered pieces beside `parcel.json`, which has their sha256. It holds JSON and safetensors alone, and
nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from hopscope.core.settings import BadInput
from hopscope.core.storage import (
    MANIFEST,
    TEMPORARY,
    Damaged,
    clear_errors,
    discard,
    read_json,
    read_manifest,
    write_file,
    write_json,
)
from hopscope.runs.run import Run

PIECE, PIECES = 15 << 20, 4  # bytes of a piece, and how many: 60 MiB, the most that a lease hands back
ABOUT = ("config.json", "metrics.jsonl", "sessions.jsonl", "report.json", "DONE")
STORED = (MANIFEST, "model.safetensors")  # what there is of every checkpoint
CONTENTS = "parcel.json"
ASIDE = f"{TEMPORARY}aside-"  # before the name of a run of ours, while one that came further takes its place


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
        for files in worth(runs):
            weights = [path for path, _ in files if path.suffix == ".safetensors"]  # they do not compress, text does
            if packed.tell() + sum(path.stat().st_size for path in weights) + (1 << 16) > room:
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


def worth(runs: Path) -> Iterator[Files]:
    """What may be packed, the most valuable first; what belongs together, together."""
    folders = [Run(path.parent) for path in sorted(runs.glob("[!.]*/config.json"))]
    for run in folders:
        yield [(run.path / name, f"runs/{run.path.name}/{name}") for name in ABOUT if (run.path / name).is_file()]
    done, begun = [run for run in folders if run.done], [run for run in folders if not run.done]
    yield from files_of((run, run.step, True) for run in begun if run.steps)
    yield from files_of((run, run.step, False) for run in done if run.steps)
    yield from files_of((run, step, False) for run in folders for step in spread(run.steps[:-1]))


def files_of(checkpoints: Iterable[tuple[Run, int, bool]]) -> Iterator[Files]:
    """The files of each checkpoint; only if asked for those that training goes on from.

    One that a kill left without some of its files, while it was being removed, is passed over.
    """
    for run, step, whole in checkpoints:
        folder = run.folder(step)
        names = [*STORED, *(["optimizer.safetensors"] if whole else [])]
        if all((folder / name).is_file() for name in names):
            yield [(folder / name, f"runs/{run.path.name}/checkpoints/{folder.name}/{name}") for name in names]


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
        BadInput: it is no parcel. Damaged: a piece is missing or altered. Busy: a run of ours is being trained.
    """
    if not (folder / CONTENTS).is_file():
        raise BadInput(f"{folder} is no parcel: it has no {CONTENTS}; 'hopscope queue --out {folder}' makes one")
    opened = runs / f"{TEMPORARY}parcel"
    with clear_errors(runs):
        discard(opened)
        opened.mkdir(parents=True)
        put_back(runs)
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
        try:
            part = path.read_bytes()
        except OSError as error:
            raise BadInput(f"could not read {path}: {error.strerror}") from error
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
    """Put a run in its place, if it is new or came further. Whether it was. Raises Busy, Damaged, CannotSave.

    Checkpoints that ours alone has are kept if they are of the same course: another machine's is another.
    """
    if came.config.identity != came.path.name.rpartition("-")[2]:
        raise Damaged(f"the parcel's run {came.path.name} is not what its name says")
    there = (ours.path / "config.json").is_file()
    if there and (ours.done, rows(ours)) >= (came.done, rows(came)):
        return False
    if not there:
        with clear_errors(ours.path):
            came.path.rename(ours.path)
        return True
    aside = ours.path.with_name(ASIDE + ours.path.name)
    with ours.writing(), clear_errors(ours.path):
        whole = {step for step in came.steps if all((came.folder(step) / name).is_file() for name in STORED)}
        for step in ours.steps:
            if step not in whole and on_course(ours, step, came):
                discard(came.folder(step))
                shutil.copytree(ours.folder(step), came.folder(step))
        ours.path.rename(aside)
        came.path.rename(ours.path)
    discard(aside)
    return True


def on_course(ours: Run, step: int, came: Run) -> bool:
    """Whether what was logged before a checkpoint of ours is, byte for byte, what the run that came has logged."""
    try:
        about = read_manifest(ours.folder(step))
    except Damaged:
        return False
    logged = (came.path / "metrics.jsonl").read_bytes()[: about["metrics_bytes"]]
    return hashlib.sha256(logged).hexdigest() == about.get("metrics_sha256")


def put_back(runs: Path) -> None:
    """Undo what a kill has left undone: a run that was set aside, and nothing in its place."""
    for aside in runs.glob(f"{ASIDE}*"):
        home = runs / aside.name.removeprefix(ASIDE)
        if not (home / "config.json").is_file():
            discard(home)
            aside.rename(home)
        discard(aside)


def rows(run: Run) -> int:
    """How far it was logged."""
    path = run.path / "metrics.jsonl"
    return len(path.read_bytes().splitlines()) if path.is_file() else 0


def summary_of(folder: Path) -> str:
    """A parcel in a line."""
    about = read_json(folder / CONTENTS)
    size = sum(path.stat().st_size for path in folder.glob("part-*"))
    return json.dumps({"parts": len(about["parts"]), "MB": round(size / 1e6, 1), "left_out": len(about["left_out"])})
