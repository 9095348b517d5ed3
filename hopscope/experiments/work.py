"""What an experiment wants done that is no training, such as asking a language model: kept and resumed as a run is."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

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
    """Work was stopped because the budget is spent; done again it goes on."""


class Work(Settings, ABC):
    """What an experiment wants done that is no training: frozen dataclasses of all that it depends on."""

    #: First part of its folder's name.
    label: ClassVar[str]

    @property
    def identity(self) -> str:
        """Twelve hexadecimal digits that change when anything about the work does."""
        return fingerprint({"work": self.label, **self.identifying()})[:12]

    @abstractmethod
    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        """Do it, or go on with it, and leave what was found in the folder. Raises `Stopped` when asked to stop."""


@dataclass(frozen=True)
class Finished:
    """Work that is done.

    Attributes:
        work: what it was.
        path: its folder.
        version: of the code that finished it.
    """

    work: Work
    path: Path
    version: str

    @classmethod
    def of(cls, work: Work, folder: Path, should_stop: Callable[[], bool]) -> Finished:
        """The work, done now unless it has been. Raises `Busy` while another process does it, Damaged."""
        done = folder / "DONE"
        if not done.is_file():
            make_folder(folder)
            with alone(folder / ".work.lock", f"another process is at work in {folder}; wait for it, or stop it"):
                if not done.is_file():  # else another process did it just before it let go of the folder
                    unlist(folder, listed(folder))
                    work.do(folder, should_stop)
                    enlist(folder, there_in(folder), version=code_version())
                    used = outside.hashes([type(work).__module__])
                    write_json(done, {"version": code_version(), **({"plugins": used} if used else {})})
        about = read_json(done)
        if (then := about.get("plugins")) and then != (now := outside.hashes([type(work).__module__])):
            told = in_words("plugins", then, now)
            warnings.warn(f"{folder} was made with other files of yours than are found now ({told})", stacklevel=2)
        for name in (names := listed(folder)):
            read_listed(folder, name)
        said = read_manifest(folder).get("version") if names else None
        return cls(work, folder, said or about["version"])
