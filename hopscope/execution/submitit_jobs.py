"""Workers of a sweep as jobs of a SLURM cluster, by submitit; without SLURM as processes of this machine.

Each job is one worker. It takes one run after another until none is left or its time is up, so short runs fill jobs of
a length that suits the cluster. A job whose time is up saves its run and ends, and another is submitted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.execution.crew import PATIENCE, Crew, run_worker

LIMITS = (10, 60)  # minutes that a job may be given
ENDING = 2  # further minutes requested from SLURM, in which a worker saves its run


class SubmititCrew(Crew):
    """Jobs, placed by submitit; all machines must see the folder of runs under the same path.

    Args:
        command: starts a worker; its last word is the parent's process id.
        size: the number of jobs at once.
        folder: for submitit's records of jobs and their output.
        minutes: the length of a job, 10 to 60.
        slurm: parameters of a SLURM job by name, such as `{"partition": "gpu", "account": "me"}`.

    Raises:
        BadInput: submitit is not installed, or it does not know a parameter.
    """

    def __init__(self, command: Sequence[str], size: int, *, folder: Path, minutes: int = 30, slurm: Mapping[str, str]):
        try:
            import submitit
        except ImportError as error:
            raise BadInput("--engine submitit needs submitit: pip install 'hopscope[submitit]'") from error
        known = submitit.SlurmExecutor._valid_parameters()
        if unknown := sorted(slurm.keys() - known):
            raise BadInput(f"a SLURM job has no parameter {unknown[0]!r}; submitit knows {', '.join(sorted(known))}")
        self.failed = submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError
        self.seconds = 60.0 * minutes
        self.executor = submitit.AutoExecutor(folder)
        given = {f"slurm_{name}": value for name, value in slurm.items()}
        self.executor.update_parameters(name="hopscope", cpus_per_task=1, timeout_min=minutes + ENDING, **given)
        super().__init__(command, size)

    def hire(self) -> Any:
        """Submit a job."""
        return self.executor.submit(run_worker, self.command, self.seconds)

    def code(self, worker: Any) -> int | None:
        """The exit code of a job's worker; −1 if the job ended without one."""
        if not worker.done():
            return None
        try:
            return int(worker.result())
        except self.failed:
            return -1

    def dismiss(self) -> None:
        """Cancel the jobs; their workers notice that their parent is gone, and save."""
        left = [worker for worker in self.workers if not worker.done()]
        for worker in left:
            worker.cancel()
        until = time.monotonic() + PATIENCE
        while not all(worker.done() for worker in left) and time.monotonic() < until:
            time.sleep(0.1)
