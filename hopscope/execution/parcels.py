"""Runs on their way home from a lent machine: a few small files that another checkout merges.

A lease ends, and what comes back from it is little: a handful of files of some megabytes. So runs are packed by worth
(first what tables are made of, then the state of unfinished runs, then final weights, then earlier checkpoints) until
the allowance is spent; a checkpoint comes whole or not at all, and what was left out is listed. A parcel is a
compressed tar in numbered pieces beside `parcel.json`, which has their sha256. It holds JSON and safetensors alone, and
nothing in it is ever executed.

All of a parcel is verified before any run of ours is touched. Ours then grows in place, file by file, and is a run that
goes on at every moment: nothing of it is taken away before what comes instead is whole.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Self, cast

from hopscope.core.settings import BadInput
from hopscope.core.storage import (
    MANIFEST,
    TEMPORARY,
    CannotSave,
    Damaged,
    clear_errors,
    discard,
    put_folder,
    read_json,
    read_manifest,
    sync_file,
    write_file,
    write_json,
)
from hopscope.runs.integrity import check, damages_of_checkpoint, damages_of_run
from hopscope.runs.run import OWN, Run

PIECE, PIECES = 15 << 20, 4  # bytes of a piece, and how many: 60 MiB, the most that a lease hands back
ABOUT = (*OWN, MANIFEST, "DONE")
STORED = (MANIFEST, "model.safetensors")  # what there is of every checkpoint
CONTENTS = "parcel.json"
OPENED = f"{TEMPORARY}parcel"
CHUNK = 1 << 20
MEMBER = re.compile(
    rf"runs/[^./][^/]*/({'|'.join(map(re.escape, ABOUT))}"
    r"|checkpoints/step_\d{8}/(manifest\.json|(model|optimizer)\.safetensors))"
)
MOST_BYTES, MOST_MEMBERS, MOST_NAME = 2 << 30, 1 << 14, 1 << 12  # of what is unpacked; 30 times what is ever packed


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
    yield from files_of((run, run.step, True) for run in begun if run.steps)
    yield from files_of((run, run.step, False) for run in done if run.steps)
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


def collect(folder: Path, runs: Path) -> list[str]:
    """Merge a parcel into a folder of runs: whatever is new, or came further than ours.

    Args:
        folder: of the parcel.
        runs: folder of run folders.

    Returns:
        Names of the folders of these runs.

    Raises:
        BadInput: it is no parcel, or a run in it is not what ours would have become.
        Damaged: a piece is missing or altered, or anything in it is not what was written; nothing is merged then.
        Busy: a run of ours is being trained.
    """
    if not (folder / CONTENTS).is_file():
        raise BadInput(f"{folder} is no parcel: it has no {CONTENTS}; 'hopscope queue --out {folder}' makes one")
    opened = runs / OPENED
    with clear_errors(runs):
        runs.mkdir(parents=True, exist_ok=True)
        discard(opened)
        opened.mkdir()
    try:
        unpack(pieces_of(folder), opened)
        pairs = [(Run(path), Run(runs / path.name)) for path in sorted((opened / "runs").glob("*"))]
        for came, _ in pairs:
            verify(came, folder)
        further = [(came, ours) for came, ours in pairs if comes_further(came, ours)]
        refuse_other_courses(further)
        for came, ours in further:
            merge(came, ours)
        return [ours.path.name for _, ours in further]
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
        if path.stat().st_size + len(whole) > MOST_BYTES:
            raise Damaged(f"{path} is altered: no parcel has more than {MOST_BYTES >> 30} GiB")
        try:
            part = path.read_bytes()
        except OSError as error:
            raise BadInput(f"could not read {path}: {error.strerror}") from error
        if hashlib.sha256(part).hexdigest() != expected:
            raise Damaged(f"{path} is altered: its sha256 does not match")
        whole += part
    return whole


class Header(tarfile.TarInfo):
    """A header that may stand in a parcel: of a plain file, or of the long name of one. Raises Damaged for others.

    It is looked at before tarfile believes it: a sparse file, or a name of gigabytes, would be filled up in memory.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        names = header.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME) and header.size <= MOST_NAME
        if not (names or header.type in (tarfile.REGTYPE, tarfile.AREGTYPE)):
            raise Damaged(f"the parcel holds {header.name!r}, which no parcel does")
        return header


def unpack(data: bytes, folder: Path) -> None:
    """Regular files of the shapes that `worth` yields, nothing else, and no more than there may be. Raises Damaged."""
    try:
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=io.BytesIO(data)))
        with tarfile.open(fileobj=stream, mode="r:", tarinfo=Header) as tar:
            for member in list(members_of(tar)):  # all are looked at before the first is written
                write_member(tar, member, folder / member.name)
    except (BadInput, CannotSave):
        raise
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise Damaged(f"the parcel cannot be unpacked: {error}") from error


def members_of(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """What an opened parcel holds. Raises Damaged for what no parcel does, by name, kind, size or number."""
    left = MOST_BYTES
    for number, member in enumerate(tar):
        if not (member.isreg() and not member.issparse() and MEMBER.fullmatch(member.name)):
            raise Damaged(f"the parcel holds {member.name!r}, which no parcel does")
        left -= member.size
        if member.size < 0 or left < 0 or number >= MOST_MEMBERS:
            most = f"{MOST_BYTES >> 30} GiB in {MOST_MEMBERS:,} files"
            raise Damaged(f"the parcel asks for more room than any parcel needs, {most}; nothing was merged")
        yield member


def write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """A file of the parcel. Raises CannotSave."""
    content = tar.extractfile(member)
    assert content is not None
    with clear_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    with file:
        while chunk := content.read(CHUNK):
            with clear_errors(path):
                file.write(chunk)


def verify(came: Run, parcel: Path) -> None:
    """Raise Damaged unless all that came of a run is what was written, and is of the run that its name says."""
    where = f"{parcel} holds the run {came.path.name}, which is damaged"
    try:
        named = came.config.identity == came.path.name.rpartition("-")[2]
    except BadInput as error:
        raise Damaged(f"{where}: {str(error).replace(f'{came.path}/', '')}; nothing was merged") from error
    if not named:
        raise Damaged(f"{where}: it is not the run that its name says; nothing was merged")
    for fault in check(came.path, partial=True).faults:
        raise Damaged(f"{where}: {fault.replace(f'{came.path}/', '').rpartition('; ')[0]}; nothing was merged")


def comes_further(came: Run, ours: Run) -> bool:
    """Whether there is anything to merge: a new run, one that came further, or a later checkpoint of a finished one."""
    if not (ours.path / "config.json").is_file():
        return True
    if difference := came.config.difference(ours.config):
        raise BadInput(f"{ours.path} holds another run than the parcel ({difference}); nothing was merged")
    if ours.done:
        logged = [(run.path / "metrics.jsonl").read_bytes() for run in (came, ours)]
        return came.done and logged[0] == logged[1] and came.step > ours.step
    return reach(came) > reach(ours)


def reach(run: Run) -> tuple[bool, int]:
    """How far a run came: whether to its end, and the newest step from which it can go on; −1 if there is none."""
    if run.done:
        return True, run.step
    able = (step for step in reversed(run.steps) if (run.folder(step) / "optimizer.safetensors").is_file())
    return False, next((step for step in able if is_sound(run, step)), -1)


def refuse_other_courses(pairs: Iterable[tuple[Run, Run]]) -> None:
    """Raise BadInput if a run that came is not what ours would have become: on another machine bits differ."""
    strangers = [str(ours.path) for came, ours in pairs if not goes_on(came, ours)]
    if strangers:
        raise BadInput(
            f"{', '.join(strangers)}: the rows in the parcel do not go on from ours, as when a run is begun anew on "
            "another machine; nothing was merged; move ours away to take the parcel's"
        )


def goes_on(came: Run, ours: Run) -> bool:
    """Whether what ours had logged when it was last saved is, byte for byte, what the run that came has logged."""
    if ours.done or not (ours.path / "config.json").is_file() or (step := reach(ours)[1]) < 0:
        return True
    logged = [(run.path / "metrics.jsonl").read_bytes() for run in (came, ours)]
    seen = read_manifest(ours.folder(step))["metrics_bytes"]
    return logged[0][:seen] == logged[1][:seen]


def merge(came: Run, ours: Run) -> None:
    """Bring ours to where the other came. Raises Busy, CannotSave.

    Rows come first, then checkpoints, the oldest first, and what tells of the end last: wherever a kill comes ours is a
    run that goes on from its newest checkpoint, and the same command brings the rest. Checkpoints that only ours has
    stay.
    """
    Run.create(ours.path, came.config)
    _, last = reach(came)
    with ours.writing(), clear_errors(ours.path):
        if not ours.done:
            take(came, ours, "sessions.jsonl", "metrics.jsonl", "truth.json")
        for step in came.steps:
            if step <= last and not is_sound(ours, step):
                for file in came.folder(step).iterdir():
                    sync_file(file)
                put_folder(came.folder(step), ours.folder(step))
        if came.done:
            if not ours.done:
                take(came, ours, "report.json")
            ours.seal()


def take(came: Run, ours: Run, *names: str) -> None:
    """Put files of the run that came in the place of ours."""
    for name in names:
        if (came.path / name).is_file():
            write_file(ours.path / name, (came.path / name).read_bytes())


def summary_of(folder: Path) -> str:
    """A parcel in a line."""
    about = read_json(folder / CONTENTS)
    size = sum(path.stat().st_size for path in folder.glob("part-*"))
    return json.dumps({"parts": len(about["parts"]), "MB": round(size / 1e6, 1), "left_out": len(about["left_out"])})
