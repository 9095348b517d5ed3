"""The losses of a row's weights on fresh sequences, which must agree with what the board states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope.runs.evaluation import evaluate
from hopscope_studies.board.row import ROWS, Row, rows_in

FRESH = 1  # seed of the sequences; a run's own report uses seed 0


@dataclass(frozen=True)
class Rerun(Report):
    """The losses of one committed row on fresh sequences."""

    label, file = "rerun", "losses.json"

    row: str = setting("", "name of the row")
    run: str = setting("", "identity of its run")
    weights: str = setting("", "sha256 of its weights")
    n: int = setting(4096, "fresh sequences", low=1)

    def report(self) -> dict[str, Any]:
        [row] = [row for row in rows_in(ROWS) if row.name == self.row]
        return losses(row, self.n)


def losses(row: Row, n: int) -> dict[str, float]:
    """A row's losses by hop on n fresh sequences, which no run's report has used."""
    measured: dict[str, float] = evaluate(row.run.model, row.task, n, FRESH, "board")["hop_losses"]
    return measured
