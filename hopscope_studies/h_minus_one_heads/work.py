"""Work without training: measures of hand-set gates, and of even ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hopscope.core.settings import setting
from hopscope.core.storage import write_json
from hopscope.experiments.work import Work
from hopscope_studies.h_minus_one_heads.by_hand import by_hand
from hopscope_studies.h_minus_one_heads.scores import dropping, gate_numbers
from hopscope_studies.h_minus_one_heads.tasks.two_kinds import TwoKinds


@dataclass(frozen=True)
class MadeByHand(Work):
    """Entropy, area and distance of gates made by hand, and of even ones, and what dropping heads costs."""

    label: ClassVar[str] = "h_minus_one_by_hand"

    sequences: int = setting(512, "sequences", low=2)

    def do(self, folder: Path, should_stop: Callable[[], bool]) -> None:
        task = TwoKinds()
        batch, rows = task.sample(self.sequences, 0), []
        for name, even in (("by hand", False), ("even", True)):
            model = by_hand(task, even)
            rows.append({"trained": name, **gate_numbers(model, batch), **dropping(model, batch)})
        write_json(folder / "numbers.json", rows)
