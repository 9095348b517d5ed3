"""Crews: the worker processes of a sweep, on this machine or on others.

A crew only starts workers, notices that one was killed, and stops them. Which runs are done is read from the run
folders (`hopscope.execution.sweep`), so every crew makes the same tables.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

DEATHS = 20  # killed workers since a run was last finished, after which the sweep gives up
PATIENCE = 30.0  # seconds that workers get to save when they are stopped
TIME_UP = 124  # what `run_worker` returns for a worker that it stopped because its time was up (as `timeout` does)
#: Exit codes after which a worker is replaced: SIGINT and SIGTERM from outside, as by a scheduler, and `TIME_UP`.
TOLD_TO_STOP = (130, 143, TIME_UP)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # one worker per core is faster than one on all cores


class Crew(ABC):
    """A fixed number of workers; those that are killed are replaced.

    Args:
        command: starts a worker; its last word is the parent's process id.
        size: the number of workers.
    """

    def __init__(self, command: Sequence[str], size: int):
        self.command = list(command)
        self.deaths, self.done = 0, -1
        self.workers: list[Any] = [self.hire() for _ in range(size)]

    @abstractmethod
    def hire(self) -> Any:
        """Start a worker."""

    @abstractmethod
    def code(self, worker: Any) -> int | None:
        """A worker's exit code; None while it works or is queued, negative if it was killed."""

    @abstractmethod
    def dismiss(self) -> None:
        """Stop the workers; each saves its run first."""

    def busy(self) -> bool:
        """Whether any worker is at work, or was killed and is to be replaced."""
        return any(code is None or was_killed(code) for code in map(self.code, self.workers))

    def replace_the_dead(self, done: int) -> None:
        """Replace every worker that was killed. Raises RuntimeError if `DEATHS` die and no run gets finished.

        One whose time was up is replaced, too, but did not die: a run may take longer than any job.
        """
        if done != self.done:
            self.deaths, self.done = 0, done
        for place, worker in enumerate(self.workers):
            code = self.code(worker)
            if code is not None and was_killed(code):
                self.deaths += code != TIME_UP
                if self.deaths > DEATHS:
                    raise RuntimeError(
                        f"{DEATHS} workers were killed since a run was last finished; the last by {abs(code)}"
                    )
                self.workers[place] = self.hire()


def was_killed(code: int) -> bool:
    """Whether an exit code means that the worker was ended from outside, so that another should continue."""
    return code < 0 or code in TOLD_TO_STOP


class Processes(Crew):
    """Workers on this machine."""

    def hire(self) -> subprocess.Popen[bytes]:
        """Start a process."""
        return subprocess.Popen(self.command, env=os.environ | ONE_THREAD, stdin=subprocess.DEVNULL)

    def code(self, worker: subprocess.Popen[bytes]) -> int | None:
        """Its exit code."""
        return worker.poll()

    def dismiss(self) -> None:
        """Terminate all workers; those that take longer than `PATIENCE` are killed."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.terminate()
        until = time.monotonic() + PATIENCE
        for worker in self.workers:
            ended(worker, max(0.0, until - time.monotonic()))


def run_worker(command: Sequence[str], seconds: float | None = None) -> int:
    """Run one worker on another machine; returns its exit code, or `TIME_UP` if it was stopped after so many seconds.

    One that did not save within `PATIENCE` is killed; its code says so, and it counts as dead. The worker stops if its
    parent, which is this process and not the sweep's, disappears.
    """
    mine = [*command[:-1], str(os.getpid())]
    worker = subprocess.Popen(mine, env=os.environ | ONE_THREAD, stdin=subprocess.DEVNULL)
    try:
        return worker.wait(seconds)
    except subprocess.TimeoutExpired:
        worker.terminate()
        code = ended(worker, PATIENCE)
        return TIME_UP if was_killed(code) and code != -signal.SIGKILL else code
    except BaseException:  # cancelling a task or job raises an exception here
        worker.terminate()
        ended(worker, PATIENCE)
        raise


def ended(worker: subprocess.Popen[bytes], seconds: float) -> int:
    """The exit code of a worker that was told to stop; it is killed after so many seconds."""
    try:
        return worker.wait(seconds)
    except subprocess.TimeoutExpired:
        worker.kill()
        return worker.wait()
