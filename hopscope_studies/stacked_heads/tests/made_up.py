"""An invented report on the heads of a language model, for tests of claims and for quick runs."""

from __future__ import annotations

from typing import Any

#: A report as short as it can be: one head of two does the hop.
MADE_UP: dict[str, Any] = {
    "scores": {"top": {"induction": [{"head": "L1H0", "score": 0.9}]}},
    "ablation": {"loss": 1.0, "without_top": 5.0, "without_random": [1.1, 1.2]},
    "hop": {"n": 48, "accuracy": 0.9, "low": 0.8, "high": 0.95, "chance": 0.25},
    "minimal": {
        "size": 1,
        "of": 40,
        "set": {"faithfulness": 0.9, "low": 0.8, "high": 1.0},
        "without_set": {"faithfulness": 0.1, "low": 0.0, "high": 0.2},
        "random_sets": [{"faithfulness": 0.0, "low": 0.0, "high": 0.0}],
    },
    "heads": [{"head": "L1H0", "minimal": True}],
    "depth": {"min_layers": 2, "stack": ["L0H0", "L1H0"]},
}

#: What the scale `quick` takes in place of a measurement, by the work's label.
REPORTS = {"heads": MADE_UP}
