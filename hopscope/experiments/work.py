"""The work of an experiment that is not training, such as asking a language model; kept and resumed as runs are."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hopscope.core import outside
from hopscope.core.environment import code_version, in_words
from hopscope.core.settings import Settings
from hopscope.core.storage import (
    alone,
    enlist,
    fingerprint,
    listed,
    make_folder,
    read_json,
    read_listed,
    read_manifest,
    unlist,
    write_json,
)
from hopscope.runs.integrity import there_in


class Stopped(Exception):
    """Work was stopped because its budget is spent; doing it again continues it."""


class Work(Settings, ABC):
    """Something to do that is not training: a frozen dataclass of everything that it depends on.

    Attributes:
        label: the first part of its folder's name.
        file: the JSON file in it that `rows` is given.
    """

    label: ClassVar[str]
    file: ClassVar[str]

    @property
    def identity(self) -> str:
        """Twelve hexadecimal digits of the hash of everything that the work depends on."""
        return fingerprint({"work": self.label, **self.identifying()})[:12]

    @abstractmethod
    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        """Do or continue the work, and leave its results in the folder. Raises `Stopped` when asked to stop."""

    def about(self) -> dict[str, Any]:
        """The columns that all of its rows in a table share."""
        return {"seed": getattr(self, "seed", 0)}

    def rows(self, report: Any) -> Iterable[Mapping[str, Any]]:
        """Its rows in a table, from its file, the report: by default a list of rows, alone or as `rows`."""
        return report["rows"] if isinstance(report, dict) else report  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Finished:
    """Work that is done.

    Attributes:
        work: the work.
        path: its folder.
        version: the version of the code that finished it.
    """

    work: Work
    path: Path
    version: str

    @classmethod
    def of(cls, work: Work, folder: Path, should_stop: Callable[[], bool]) -> Finished:
        """Do the work unless it is done. Raises `Busy` if another process is doing it, Damaged if it was altered."""
        done = folder / "DONE"
        if not done.is_file():
            make_folder(folder)
            with alone(folder / ".work.lock", f"another process is at work in {folder}; wait for it, or stop it"):
                if not done.is_file():  # else another process did it just before it released the lock
                    unlist(folder, listed(folder))
                    work.do(folder, should_stop)
                    enlist(folder, there_in(folder), version=code_version())
                    used = outside.hashes([type(work).__module__])
                    write_json(done, {"version": code_version(), **({"plugins": used} if used else {})})
        about = read_json(done)
        if (then := about.get("plugins")) and then != (now := outside.hashes([type(work).__module__])):
            changes = in_words("plugins", then, now)
            warnings.warn(f"{folder} was made with other versions of your files than now ({changes})", stacklevel=2)
        for name in (names := listed(folder)):
            read_listed(folder, name)
        listed_version = read_manifest(folder).get("version") if names else None
        return cls(work, folder, listed_version or about["version"])

    def rows(self) -> Iterable[Mapping[str, Any]]:
        """Its rows in a table, without the columns that they share (`hopscope.experiments.tables.rows_of`)."""
        return self.work.rows(read_json(self.path / self.work.file))
