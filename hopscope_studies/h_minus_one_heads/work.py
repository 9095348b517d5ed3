"""Measures of hand-set gates and of even ones, as work without training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope_studies.h_minus_one_heads.by_hand import by_hand
from hopscope_studies.h_minus_one_heads.scores import dropping, gate_numbers
from hopscope_studies.h_minus_one_heads.tasks.two_kinds import TwoKinds


@dataclass(frozen=True)
class MadeByHand(Report):
    """Entropy, area and distance of hand-set gates and of even ones, and the cost of dropping heads."""

    label, file = "h_minus_one_by_hand", "numbers.json"

    sequences: int = setting(512, "sequences", low=2)

    def about(self) -> dict[str, Any]:
        return {"seed": 0, "kind": "by hand"}

    def report(self) -> Any:
        """A row for each kind of gates."""
        task = TwoKinds()
        batch, rows = task.sample(self.sequences, 0), []
        for name, even in (("by hand", False), ("even", True)):
            model = by_hand(task, even)
            rows.append({"trained": name, **gate_numbers(model, batch), **dropping(model, batch)})
        return rows
