"""Crews: the worker processes of a sweep, wherever they run.

A crew only starts workers, tells when one has died, and sends them home. What is done and what is not is said by the
run folders alone (`hopscope.execution.sweep`), so every crew makes the same tables.
"""

from __future__ import annotations

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

DEATHS = 20  # workers that may die since a run was last finished, before the sweep gives up
PATIENCE = 30.0  # seconds that workers get to save when they are told to stop
TOLD_TO_STOP = (130, 143)  # exit codes of a worker that someone else has stopped, as a scheduler does: it is replaced
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # several on one core each do more than one on all


class Crew(ABC):
    """So many workers, of whom those that are killed are replaced.

    Args:
        command: how one is started; its last word is the parent's process id.
        size: how many.
    """

    def __init__(self, command: Sequence[str], size: int):
        self.command = list(command)
        self.deaths, self.done = 0, -1
        self.workers: list[Any] = [self.hire() for _ in range(size)]

    @abstractmethod
    def hire(self) -> Any:
        """One more worker."""

    @abstractmethod
    def code(self, worker: Any) -> int | None:
        """A worker's exit code; None while it works or waits for its turn, negative if it was killed."""

    @abstractmethod
    def dismiss(self) -> None:
        """Tell whoever still works to save and stop."""

    def busy(self) -> bool:
        """Whether any worker is at work, or has died at it."""
        return any(code is None or was_killed(code) for code in map(self.code, self.workers))

    def replace_the_dead(self, done: int) -> None:
        """A new worker for each that was killed. Raises RuntimeError if they die without anything getting done."""
        if done != self.done:
            self.deaths, self.done = 0, done
        for place, worker in enumerate(self.workers):
            code = self.code(worker)
            if code is not None and was_killed(code):
                self.deaths += 1
                if self.deaths > DEATHS:
                    raise RuntimeError(
                        f"{DEATHS} workers were killed since a run was last finished; the last by {abs(code)}"
                    )
                self.workers[place] = self.hire()


def was_killed(code: int) -> bool:
    """Whether an exit code tells that somebody ended the worker, so that another should go on."""
    return code < 0 or code in TOLD_TO_STOP


class Processes(Crew):
    """Workers on this machine."""

    def hire(self) -> subprocess.Popen[bytes]:
        """One more process."""
        return subprocess.Popen(self.command, env=os.environ | ONE_THREAD, stdin=subprocess.DEVNULL)

    def code(self, worker: subprocess.Popen[bytes]) -> int | None:
        """Its exit code."""
        return worker.poll()

    def dismiss(self) -> None:
        """All are told; who does not stop in time is killed."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.terminate()
        until = time.monotonic() + PATIENCE
        for worker in self.workers:
            ended(worker, max(0.0, until - time.monotonic()))


def run_worker(command: Sequence[str], seconds: float | None = None) -> int:
    """On some other machine: be the parent of one worker, for so long at most; its exit code.

    The worker stops by itself when its parent is gone; its parent is this process, not the sweep's.
    """
    mine = [*command[:-1], str(os.getpid())]
    worker = subprocess.Popen(mine, env=os.environ | ONE_THREAD, stdin=subprocess.DEVNULL)
    try:
        return worker.wait(seconds)
    except subprocess.TimeoutExpired:
        worker.terminate()
        return ended(worker, PATIENCE)
    except BaseException:  # a task or job that is cancelled gets an exception
        worker.terminate()
        ended(worker, PATIENCE)
        raise


def ended(worker: subprocess.Popen[bytes], seconds: float) -> int:
    """The exit code of one who was told to stop; killed if that takes longer."""
    try:
        return worker.wait(seconds)
    except subprocess.TimeoutExpired:
        worker.kill()
        return worker.wait()
