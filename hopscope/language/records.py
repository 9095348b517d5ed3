"""Answers on disk: one line per attempt, appended as answers arrive, so that nothing is asked twice.

A record is found by its key, a hash of everything that the answer depends on. If the process is killed, an incomplete
last line is dropped, and only the batch that was being asked is asked again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hopscope.core.storage import Damaged, alone, append, clear_errors, fingerprint, sync_file
from hopscope.core.strangers import Number, json_of, misfit
from hopscope.language.layouts.base import Rendered

NAME, DIGEST = "records.jsonl", "line_sha256"
Record = dict[str, Any]
#: Shapes of what is read back: of a text, and of log-likelihoods.
TEXT = {"key": str, "said": {"text": str, "finish_reason?": str, "thoughts?": str, "left_out?": [str]}}
SCORES = {"key": str, "said": {"scores": [Number], "blank": [Number]}}


def key_of(about: Mapping[str, Any]) -> str:
    """The key of an attempt: sixteen hexadecimal digits of a hash of everything that its answer depends on."""
    return fingerprint(about)[:16]


def digest(record: Record) -> str:
    """Sixteen hexadecimal digits of a hash of a record's values, in whatever order; some may be infinite."""
    return fingerprint(json.dumps(record, sort_keys=True))[:16]


def hash_of(rendered: Rendered, blank: Rendered | None) -> str:
    """A hash of everything that the model is given.

    Answers that are prefixes of others are marked, because earlier versions scored them differently.
    """
    given = [rendered.text, rendered.chat, rendered.stop, blank and blank.text]
    if blank is not None and any(a != b and b.startswith(a) for a in rendered.choices for b in rendered.choices):
        given.append("answers whole")
    return fingerprint(given)[:16]


class Records:
    """The answer to every attempt by its key, kept in a folder, or only in memory if there is none."""

    def __init__(self, folder: Path | None):
        self.path = folder and folder / NAME
        self.said: dict[str, dict[str, Any]] = {}

    @classmethod
    @contextmanager
    def opened(cls, folder: Path | None) -> Iterator[Records]:
        """A context with the records of a folder.

        Raises:
            Busy: another process is writing to the folder.
            CannotSave: the folder cannot be written.
            Damaged: a line of the file is no record.
        """
        records = cls(folder)
        if folder is None:
            yield records
            return
        with clear_errors(folder):
            made = [place for place in (folder, *folder.parents) if not place.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        busy = f"another process is evaluating into {folder}; wait for it, or choose another --out"
        try:
            with alone(folder / ".lock", busy):
                try:
                    records.load()
                    yield records
                finally:
                    if not records.said:
                        (folder / ".lock").unlink(missing_ok=True)
        finally:
            for place in made:  # remove folders that are still empty
                with suppress(OSError):
                    place.rmdir()

    def load(self, mode: str = "r+b") -> None:
        """Read the file and, unless it is opened only to be read, cut off an incomplete last line. Raises Damaged."""
        assert self.path is not None
        if not self.path.is_file():
            return
        end = 0
        with clear_errors(self.path), self.path.open(mode) as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    self.read(line, number)
                    end += len(line)
            if file.writable():
                file.truncate(end)

    def read(self, line: bytes, number: int) -> None:
        """Read one line of the file. Raises Damaged if it is no record, or not as it was written."""
        try:
            record = json_of(line, infinities=True)  # an answer may have no probability without the statements
        except ValueError:
            record = None
        strange = misfit(record, TEXT, "it") and misfit(record, SCORES, "it")
        if strange or record.pop(DIGEST, None) not in (None, digest(record)):  # older versions wrote no digest
            raise Damaged(f"{self.path} is altered in line {number}; delete that line to ask again")
        self.said[record["key"]] = record["said"]

    def add(self, records: Iterable[Record]) -> None:
        """Keep attempts; they are safely on disk when this returns."""
        kept = list(records)
        self.said |= {one["key"]: one["said"] for one in kept}
        if self.path is not None and kept:
            append(self.path, "".join(json.dumps(one | {DIGEST: digest(one)}) + "\n" for one in kept).encode())
            sync_file(self.path)
