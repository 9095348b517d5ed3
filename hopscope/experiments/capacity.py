"""What experiments on capacity share: a search for the largest size that is still recalled, kept after every try.

A size passes if its recall is at least 0.99 (Nichani, Lee & Bietti, 2024, section 4). The bracket is halved until the
ratio of its ends is 1.01 (theirs), or what the work says.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hopscope.configuration.config import Config
from hopscope.core.settings import setting
from hopscope.core.storage import read_json, write_json
from hopscope.experiments.runner import carry_out, run_folder
from hopscope.experiments.work import Stopped, Work
from hopscope.runs.run import Run

ENOUGH = 0.99  # recall at which a size passes
LOOKS = 128  # times that recall is evaluated in one training (their mlp_sweep.py)
TRIES = "tries.json"


@dataclass(frozen=True)
class Search(Work):
    """A search for the largest size that a memory can hold; subclasses define what a size is.

    It lies from `low` to below `high`, which is not tried. If every tried size passes, what is found is a lower bound
    just below `high`.
    """

    low: int = setting(8, "least size tried", low=1)
    high: int = setting(64, "a size that is taken to be too large", low=2)
    precision: float = setting(1.01, "ratio of the bracket's ends at which the search stops", low=1)

    @abstractmethod
    def recall_at(self, size: int, folder: Path, should_stop: Callable[[], bool]) -> float:
        """The recall (0–1) of a memory of this size, trained in the folder unless it is there. Raises Stopped."""

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        path = folder / TRIES
        tries = {int(size): recall for size, recall in read_json(path).items()} if path.is_file() else {}
        while (size := self.next_size(tries)) is not None:
            if should_stop():
                raise Stopped
            tries[size] = self.recall_at(size, folder, should_stop)
            write_json(path, tries)

    def next_size(self, tries: Mapping[int, float]) -> int | None:
        """The middle of the bracket; None once it is narrow enough."""
        passed = [size for size, recall in tries.items() if recall >= ENOUGH]
        failed = [size for size, recall in tries.items() if recall < ENOUGH]
        low, high = max(passed, default=self.low), min(failed, default=self.high)
        if high - low <= 1 or (tries and high / low <= self.precision):
            return low if not passed and low not in tries else None
        return (low + high) // 2


def best_recall(config: Config, folder: Path, should_stop: Callable[[], bool]) -> float:
    """The best recall (0–1) in a training that stops at its `stop_accuracy`, in a run within the folder."""
    run = carry_out(config, run_folder(folder, config), should_stop, device="cpu", compile="off")
    assert isinstance(run, Run)
    return highest_accuracy(run)


def highest_accuracy(run: Run) -> float:
    """The highest accuracy in the rows of a run with a `stop_accuracy`."""
    return max(float(row["accuracy"]) for row in run.rows)


def capacity(tries: Mapping[int, float]) -> float:
    """The largest size that passed; NaN if none did."""
    return max((float(size) for size, recall in tries.items() if recall >= ENOUGH), default=math.nan)
