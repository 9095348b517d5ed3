"""Words on a terminal, whoever wrote them: no name is taken for markup, and no character for an order.

Names of runs, models and tensors, and what servers say, are a stranger's. So every console here prints strings as they
are; what is meant to be bold or coloured is a `rich.text.Text`, made by `tinted`.
"""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from hopscope.core.strangers import visible

WIDE = 140  # characters where there is no terminal: wide enough for our tables


class PlainConsole(Console):
    """A console on which strings are text alone, with their control characters visible."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(shown(text), **how)


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Where answers are printed (stdout), or what is told by the way (stderr).

    Args:
        stderr: which of the two.
        width: in characters; by default as wide as the terminal, or `WIDE` where stdout is none.
    """
    wide = None if stderr or sys.stdout.isatty() else WIDE
    return PlainConsole(stderr=stderr, width=width or wide, markup=False, emoji=False, highlight=False)


def shown(text: str) -> str:
    """A text of several lines, its control characters visible."""
    return "\n".join(map(visible, text.split("\n")))


def tinted(text: object, style: str) -> Text:
    """A text of ours in a style, such as `bold` or `green`."""
    return Text(shown(str(text)), style=style)


class Words(TextColumn):
    """A column of a bar whose words are text alone: `Words("{task.description}", style="bold")`."""

    def render(self, task: Task) -> Text:
        return Text(visible(self.text_format.format(task=task)), style=self.style)


def bar(*columns: ProgressColumn, on: Console, **how: Any) -> Progress:
    """A bar named in bold, with these columns after it."""
    return Progress(Words("{task.description}", style="bold"), BarColumn(bar_width=24), *columns, console=on, **how)
