"""Workers of a sweep on a Ray cluster: several machines that share the folder of runs (Moritz et al., 2018).

Ray only starts workers, wherever there are cores or a share of a GPU, and tells when one has died. Each is the same
process as in a local sweep, with the same lock per run, so what is done and what is not is said by the run folders
here as there. Without a cluster (RAY_ADDRESS unset) Ray starts one on this machine.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.execution.sweep import DEATHS, PATIENCE, was_killed

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def run_worker(command: Sequence[str]) -> int:
    """On some machine of the cluster: be the parent of one worker; its exit code."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # The worker stops by itself when its parent is gone; its parent is this process, not the driver.
    mine = [*command[:-1], str(os.getpid())]
    worker = subprocess.Popen(mine, env=os.environ | threads, stdin=subprocess.DEVNULL)
    try:
        return worker.wait()
    except BaseException:  # Ray cancels a task by an exception in it
        worker.terminate()
        try:
            worker.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            worker.kill()
        raise


class RayCrew:
    """Worker processes, wherever Ray puts them; used as `hopscope.execution.sweep.Crew` is.

    Args:
        command: how one is started; its last word is the parent's process id.
        size: how many.
        gpus: share of a GPU that each takes, 0 to 1; Ray puts no more than fit on one.

    Raises:
        BadInput: Ray is not installed, or the cluster cannot be reached.
    """

    def __init__(self, command: Sequence[str], size: int, gpus: float = 0.0):
        os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
        try:
            import ray
        except ImportError as error:
            raise BadInput("--engine ray needs Ray: pip install 'hopscope[ray]'") from error
        self.ray: Any = ray
        cluster: dict[str, Any] = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": size, "include_dashboard": False}
        try:
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **cluster)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise BadInput(f"could not reach the Ray cluster: {error}") from error
        self.command = list(command)
        self.task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(run_worker)
        self.deaths, self.done = 0, -1
        self.workers = [self.hire() for _ in range(size)]

    def hire(self) -> Any:
        """One more worker; a reference to its exit code."""
        return self.task.remote(self.command)

    def code(self, worker: Any) -> int | None:
        """A worker's exit code; None while it works or waits for its turn, −1 if it died with the process around it."""
        ready, _ = self.ray.wait([worker], timeout=0)
        if not ready:
            return None
        try:
            return int(self.ray.get(worker))
        except self.ray.exceptions.RayError:
            return -1

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
                    raise RuntimeError(f"{DEATHS} workers were killed since a run was last finished")
                self.workers[place] = self.hire()

    def dismiss(self) -> None:
        """Tell whoever still works to save and stop, and leave the cluster."""
        left = [worker for worker in self.workers if self.code(worker) is None]
        for worker in left:
            self.ray.cancel(worker)
        if left:
            self.ray.wait(left, num_returns=len(left), timeout=PATIENCE)
        self.ray.shutdown()
