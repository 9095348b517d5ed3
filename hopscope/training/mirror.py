"""Metrics mirrored to Weights & Biases, or to Trackio, its local drop-in replacement.

A mirror is only written to: the run folder stays the only source.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from hopscope.configuration.config import Config
from hopscope.core.settings import BadInput, check_choice

TRACKERS = ("wandb", "trackio")


class Mirror:
    """A watcher of training that copies every row to a tracker. Both trackers share `init`, `log` and `finish`."""

    def __init__(self, tracker: str, project: str = "hopscope", name: str | None = None):
        check_choice("mirror", tracker, TRACKERS)
        try:
            self.tracker: Any = importlib.import_module(tracker)
        except ImportError as error:
            raise BadInput(f"{tracker} is not installed; pip install 'hopscope[{tracker}]'") from error
        self.project, self.name = project, name
        self.begun = False

    def begin(self, config: Config, step: int) -> None:
        """Open the tracker's run."""
        self.tracker.init(project=self.project, name=self.name or config.identity, config=config.as_dict())
        self.begun = True

    def stepped(self, step: int) -> None:
        """Do nothing: only rows are mirrored."""

    def logged(self, row: Mapping[str, Any]) -> None:
        """Copy a row, flat: `hop_losses/x1`, `measures/induction_score/L1H0` …"""
        self.tracker.log(flatten({k: v for k, v in row.items() if k != "step"}), step=row["step"])

    def end(self) -> None:
        """Close the tracker's run."""
        if self.begun:
            self.tracker.finish()


def flatten(row: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Nested numbers under joined names; None is left out."""
    flat: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}/")
        elif value is not None:
            flat[prefix + name] = value
    return flat
