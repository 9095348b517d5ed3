"""Progress of training: a live bar with steps/s, time left and every hop's loss (rich), or plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from hopscope.configuration.config import Config
from hopscope.core.terminal import Words, bar, console

LINES = 10  # lines per run where the console is no terminal


class ProgressBar:
    """A watcher that shows progress on stderr, so that stdout holds only the command's result."""

    def __init__(self, on: Console | None = None, label: str = ""):
        self.console = on or console(stderr=True)
        self.label = label
        self.live: Progress | None = None
        self.tenth = -1  # of the steps, at the last line

    def begin(self, config: Config, step: int) -> None:
        """Start the bar at the step from which training continues."""
        self.steps, self.first, self.began = config.training.steps, step, time.monotonic()
        self.label = self.label or config.task.name()
        if self.console.is_terminal:
            self.live = bar(
                MofNCompleteColumn(),
                Words("{task.fields[speed]}"),
                TimeElapsedColumn(),
                Words("left"),
                TimeRemainingColumn(),
                Words("{task.fields[losses]}"),
                on=self.console,
            )
            self.bar = self.live.add_task(self.label, total=self.steps, completed=step, speed="", losses="")
            self.live.start()
        elif step:
            self.console.print(f"{self.label}: going on from step {step}")

    def speed(self, step: int) -> str:
        """Steps per second in this session, in words."""
        passed = time.monotonic() - self.began
        return f"{(step - self.first) / passed:.1f} steps/s" if passed > 0 and step > self.first else ""

    def stepped(self, step: int) -> None:
        """Advance the bar."""
        if self.live:
            self.live.update(self.bar, completed=step, speed=self.speed(step))

    def logged(self, row: Mapping[str, Any]) -> None:
        """Show the newest row's losses by hop."""
        losses = "  ".join(f"{hop} {loss:.3f}" for hop, loss in list(row["hop_losses"].items())[:8])
        step = row["step"]
        tenth = step * LINES // max(1, self.steps)
        if self.live:
            self.live.update(self.bar, losses=losses)
        elif tenth != self.tenth:
            self.tenth = tenth
            self.console.print(f"{self.label}: step {step}/{self.steps}  {self.speed(step)}  {losses}")

    def end(self) -> None:
        """Stop the bar, leaving it visible."""
        if self.live:
            self.live.stop()
