"""What experiments on capacity share: the search for the greatest size that is still recalled, kept try by try.

A size passes if its recall is at least 0.99 (Nichani, Lee & Bietti, 2024, section 4); the bracket is halved until its
ends differ by 1 % (there) or by what the work says.
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

ENOUGH = 0.99
LOOKS = 128  # times that a training looks at its recall (their mlp_sweep.py)
TRIES = "tries.json"


@dataclass(frozen=True)
class Search(Work):
    """The greatest size in [low, high] that a memory of a given shape holds; subclasses say what a size is."""

    low: int = setting(8, "least size tried", low=1)
    high: int = setting(64, "greatest size", low=2)
    precision: float = setting(1.01, "ratio of the bracket's ends at which the search stops", low=1)

    @abstractmethod
    def recall_at(self, size: int, folder: Path, should_stop: Callable[[], bool]) -> float:
        """The recall (0–1) of a memory of this size, trained in the folder if need be. Raises Stopped."""

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        path = folder / TRIES
        tries = {int(size): recall for size, recall in read_json(path).items()} if path.is_file() else {}
        while (size := self.next_size(tries)) is not None:
            if should_stop():
                raise Stopped
            tries[size] = self.recall_at(size, folder, should_stop)
            write_json(path, tries)

    def next_size(self, tries: Mapping[int, float]) -> int | None:
        """The middle of what is still open; None once it is narrow enough."""
        passed = [size for size, recall in tries.items() if recall >= ENOUGH]
        failed = [size for size, recall in tries.items() if recall < ENOUGH]
        low, high = max(passed, default=self.low), min(failed, default=self.high)
        if high - low <= 1 or (tries and high / low <= self.precision):
            return low if not passed and low not in tries else None
        return (low + high) // 2


def best_recall(config: Config, folder: Path, should_stop: Callable[[], bool]) -> float:
    """The best recall (0–1) of a training that stops at its `stop_accuracy`, in a run below the folder."""
    run = carry_out(config, run_folder(folder, config), should_stop, device="cpu", compile="off")
    assert isinstance(run, Run)
    return highest_accuracy(run)


def highest_accuracy(run: Run) -> float:
    """The best that the rows of a run with a `stop_accuracy` show."""
    return max(float(row["accuracy"]) for row in run.rows)


def capacity(tries: Mapping[int, float]) -> float:
    """The greatest size that passed; NaN if none did."""
    return max((float(size) for size, recall in tries.items() if recall >= ENOUGH), default=math.nan)


def tries_of(folder: Path) -> dict[int, float]:
    """Recall by size, as a search left them."""
    return {int(size): recall for size, recall in read_json(folder / TRIES).items()}
