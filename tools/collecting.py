"""A parcel at home: unpacked, verified, and merged into a folder of runs (`tools/parcels.py` makes it).

All of a parcel is verified before any run of ours is touched. Ours then grows in place, file by file, and is a run that
goes on at every moment: nothing of it is taken away before what comes instead is whole.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Self, cast

from hopscope.core.settings import BadInput
from hopscope.core.storage import (
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
)
from hopscope.runs.integrity import check
from hopscope.runs.run import Run
from tools.parcels import ABOUT, CONTENTS, is_sound

OPENED = f"{TEMPORARY}parcel"
CHUNK = 1 << 20
MEMBER = re.compile(
    rf"runs/[^./][^/]*/({'|'.join(map(re.escape, ABOUT))}"
    r"|checkpoints/step_\d{8}/(manifest\.json|(model|optimizer)\.safetensors))"
)
MOST_BYTES, MOST_MEMBERS, MOST_NAME = 2 << 30, 1 << 14, 1 << 12  # of what is unpacked; 30 times what is ever packed


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
        how = f"'python -m tools.full_size --out {folder}' makes one"
        raise BadInput(f"{folder} is no parcel: it has no {CONTENTS}; {how}")
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
