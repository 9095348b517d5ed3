"""Workers of a sweep on a Ray cluster: several machines that share the folder of runs (Moritz et al., 2018).

Ray starts workers wherever cores, or shares of a GPU, are free. Without a cluster (RAY_ADDRESS unset) it starts one on
this machine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.execution.crew import PATIENCE, Crew, run_worker

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class RayCrew(Crew):
    """Worker processes, placed by Ray.

    Args:
        command: starts a worker; its last word is the parent's process id.
        size: the number of workers.
        gpus: the share of a GPU that each needs, 0 to 1; Ray puts no more than fit on one.

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
        self.task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(run_worker)
        super().__init__(command, size)

    def hire(self) -> Any:
        """Start a worker; returns Ray's reference to its exit code."""
        return self.task.remote(self.command)

    def code(self, worker: Any) -> int | None:
        """A worker's exit code; −1 if its process died."""
        ready, _ = self.ray.wait([worker], timeout=0)
        if not ready:
            return None
        try:
            return int(self.ray.get(worker))
        except self.ray.exceptions.RayError:
            return -1

    def dismiss(self) -> None:
        """Cancel the workers and leave the cluster."""
        left = [worker for worker in self.workers if self.code(worker) is None]
        for worker in left:
            self.ray.cancel(worker)
        if left:
            self.ray.wait(left, num_returns=len(left), timeout=PATIENCE)
        self.ray.shutdown()
