"""The losses of a row's weights on fresh sequences, which must agree with what the board states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.work import Work
from hopscope.runs.evaluation import evaluate
from hopscope_studies.board.row import ROWS, Row, rows_in

FRESH = 1  # seed of the sequences; a run's own report uses seed 0


@dataclass(frozen=True)
class Rerun(Work):
    """The losses of one committed row on fresh sequences."""

    label = "rerun"

    row: str = setting("", "name of the row")
    run: str = setting("", "identity of its run")
    weights: str = setting("", "sha256 of its weights")
    n: int = setting(4096, "fresh sequences", low=1)

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        [row] = [row for row in rows_in(ROWS) if row.name == self.row]
        write_json(folder / "losses.json", losses(row, self.n))


def losses(row: Row, n: int) -> dict[str, float]:
    """A row's losses by hop on n fresh sequences, which no run's report has used."""
    measured: dict[str, float] = evaluate(row.run.model, row.task, n, FRESH, "board")["hop_losses"]
    return measured
