"""Output on a terminal: strings are printed literally, without markup and without control characters.

Names of runs, models and tensors, and answers of servers, are untrusted. So every console here prints strings as they
are; bold or coloured words are a `rich.text.Text`, made by `tinted`.
"""

from __future__ import annotations

import codecs
import os
import sys
import threading
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from hopscope.core.strangers import visible
from hopscope.core.wording import duration

PLAIN = "hopscope.plain"  # the name of the codec error handler `plain`
#: Replacements for characters of drawings and sentences where a terminal has only ASCII; all others are escaped.
ASCII = str.maketrans("│─┄├┤┼▶◀→←–−…", "|-.||+><><--.")
PROGRESS = "HOPSCOPE_PROGRESS"  # the variable that asks for progress where there is no terminal
QUIET = 1.8  # seconds between two messages
WIDE = 140  # columns where there is no terminal: wide enough for our tables


def plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Codec error handler: what a stream writes for characters that its encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(ASCII)
    return text.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(PLAIN, plain)


class PlainConsole(Console):
    """A console that prints strings literally, with their control characters visible."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(shown(text), **how)


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console for results (stdout), or for progress and remarks (stderr).

    Args:
        stderr: whether it is the latter.
        width: in columns; by default the terminal's, or `WIDE` where stdout is not one.
    """
    wide = None if stderr or sys.stdout.isatty() else WIDE
    return PlainConsole(stderr=stderr, width=width or wide, markup=False, emoji=False, highlight=False)


def shown(text: str) -> str:
    """A text of several lines with its control characters visible."""
    return "\n".join(map(visible, text.split("\n")))


def tinted(text: object, style: str) -> Text:
    """A text in a style, such as `bold` or `green`."""
    return Text(shown(str(text)), style=style)


class Words(TextColumn):
    """A progress bar's column whose text is printed literally: `Words("{task.description}", style="bold")`."""

    def render(self, task: Task) -> Text:
        return Text(visible(self.text_format.format(task=task)), style=self.style)


def bar(*columns: ProgressColumn, on: Console, **how: Any) -> Progress:
    """A progress bar with a bold description, followed by these columns."""
    return Progress(Words("{task.description}", style="bold"), BarColumn(bar_width=24), *columns, console=on, **how)


def counting_bar() -> Progress:
    """A progress bar with the number done and the time elapsed, on stderr; disabled where that is no terminal."""
    err = console(stderr=True)
    return bar(MofNCompleteColumn(), TimeElapsedColumn(), on=err, disable=not err.is_terminal)


def shows_progress() -> bool:
    """Whether progress is shown: on a terminal, or where `--progress` asks for it."""
    return sys.stderr.isatty() or bool(os.environ.get(PROGRESS))


class Narrator:
    """Reports on stderr what is being done, and repeats it whenever two seconds pass without a message.

    A context manager: `with Narrator("loading") as watch: … watch("drawing")`. A first step that takes less than two
    seconds is not mentioned. Where stderr is no terminal, only steps announced by a call are reported, and only if
    progress is asked for (`shows_progress`), so that a wrong command prints one sentence alone.

    Args:
        words: the first step.
        quiet: seconds between two messages.
    """

    def __init__(self, words: str = "", quiet: float = QUIET):
        self.words, self.quiet = words, quiet
        self.began = self.last = time.monotonic()
        self.over = threading.Event()
        self.live, self.open, self.silent = sys.stderr.isatty(), False, not shows_progress()
        self.announced = self.live

    def __call__(self, words: str) -> None:
        """Report a new step."""
        self.words, self.began, self.announced = words, time.monotonic(), True
        self.tell(f"{words} \u2026")

    def now_at(self, words: str) -> None:
        """Report a step that is soon followed by another: at once on a terminal, else only if it takes long."""
        self.words, self.announced = words, True
        if self.live:
            self.tell(f"{words} \u2026")

    def __enter__(self) -> Narrator:
        self.began = self.last = time.monotonic()
        self.thread = threading.Thread(target=self.remind, name="hopscope-narrator", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.over.set()
        self.thread.join()
        if self.open:  # erase the progress line
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def remind(self) -> None:
        """Thread: repeat the current step, with the seconds it has taken, until the context ends."""
        while not self.over.wait(max(0.01, self.last + self.quiet - time.monotonic())):
            if not (self.words and self.announced):
                self.last = time.monotonic()
            elif time.monotonic() - self.last >= self.quiet:
                self.tell(f"{self.words} \u2026 {duration(round(time.monotonic() - self.began))}")

    def tell(self, words: str) -> None:
        """Print a line; on a terminal, overwrite the last one."""
        self.last, line = time.monotonic(), f"hopscope: {visible(words)}"
        if self.silent:
            return
        print(f"\r\x1b[K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)
        self.open = self.live
