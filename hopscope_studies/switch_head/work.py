"""Work without training: one map with experts and hand-set weights that distinguishes several places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.experiments.reports import Report
from hopscope_studies.switch_head.by_hand import by_hand
from hopscope_studies.switch_head.scores import held, knows
from hopscope_studies.switch_head.tasks.last_tokens import LastTokens


@dataclass(frozen=True)
class MadeByHand(Report):
    """The accuracy of the hand-set weights, and that with every gate at its mean, for 2 to m places."""

    label, file = "places_by_hand", "numbers.json"

    most: int = setting(8, "greatest number of places, and of experts", low=2, high=64)
    sequences: int = setting(512, "sequences for each number", low=1)

    def about(self) -> dict[str, Any]:
        return {"seed": 0, "part": "places", "model": "by hand", "kind": "by hand"}

    def report(self) -> Any:
        """A row for each number of places."""
        rows = []
        for m in range(2, self.most + 1):
            task = LastTokens(n_places=m)
            model, batch = by_hand(task), task.sample(self.sequences, 0)
            of_held = knows(held(model, batch), batch)["accuracy"]
            rows.append({"places": m, "maps": 1, **knows(model, batch), "held_accuracy": of_held})
        return rows
