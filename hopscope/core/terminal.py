"""Words on a terminal, whoever wrote them: no name is taken for markup, and no character for an order.

Names of runs, models and tensors, and what servers say, are a stranger's. So every console here prints strings as they
are; what is meant to be bold or coloured is a `rich.text.Text`, made by `tinted`.
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

PLAIN = "hopscope.plain"  # the name of `plain`, as an `errors` of streams
#: What stands for signs of drawings and sentences where a terminal knows ASCII alone; all else is spelt out.
ASCII = str.maketrans("│─┄├┤┼▶◀→←–−…", "|-.||+><><--.")
PROGRESS = "HOPSCOPE_PROGRESS"  # the variable that asks for progress where there is no terminal
QUIET = 1.8  # seconds without a word
WIDE = 140  # characters where there is no terminal: wide enough for our tables


def plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """What a stream writes that cannot write a character."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(ASCII)
    return text.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(PLAIN, plain)


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


def counting_bar() -> Progress:
    """A bar of how many are done, and for how long, on stderr; nothing where that is no terminal."""
    err = console(stderr=True)
    return bar(MofNCompleteColumn(), TimeElapsedColumn(), on=err, disable=not err.is_terminal)


def shows_progress() -> bool:
    """Whether it is told how far things are: on a terminal, or where `--progress` asks for it."""
    return sys.stderr.isatty() or bool(os.environ.get(PROGRESS))


class Narrator:
    """Says on stderr what is being done; and, whenever nothing was said for two seconds, that it still is.

    A context: `with Narrator("loading") as watch: … watch("drawing")`. What takes less than two seconds, and was not
    announced by a call, is not mentioned at all. Where stderr is no terminal, nothing is said unless it is asked for
    (`shows_progress`), and then only what was announced: a wrong command is answered by one sentence, however long it
    took to find out.

    Args:
        words: what is being done first.
        quiet: seconds without a word.
    """

    def __init__(self, words: str = "", quiet: float = QUIET):
        self.words, self.quiet = words, quiet
        self.began = self.told = time.monotonic()
        self.over = threading.Event()
        self.live, self.open, self.silent = sys.stderr.isatty(), False, not shows_progress()
        self.announced = self.live

    def __call__(self, words: str) -> None:
        """Say what is being done now."""
        self.words, self.began, self.announced = words, time.monotonic(), True
        self.tell(f"{words} \u2026")

    def now_at(self, words: str) -> None:
        """What is being done now, where one step soon follows another: said at once on a terminal, else by and by."""
        self.words, self.announced = words, True
        if self.live:
            self.tell(f"{words} \u2026")

    def __enter__(self) -> Narrator:
        self.began = self.told = time.monotonic()
        self.thread = threading.Thread(target=self.remind, name="hopscope-narrator", daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.over.set()
        self.thread.join()
        if self.open:  # leave the line as if nothing had been said
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def remind(self) -> None:
        """Say again what is still being done, until it is over."""
        while not self.over.wait(max(0.01, self.told + self.quiet - time.monotonic())):
            if not (self.words and self.announced):
                self.told = time.monotonic()
            elif time.monotonic() - self.told >= self.quiet:
                self.tell(f"{self.words} \u2026 {duration(round(time.monotonic() - self.began))}")

    def tell(self, words: str) -> None:
        """A line, or on a terminal the one line over again."""
        self.told, line = time.monotonic(), f"hopscope: {visible(words)}"
        if self.silent:
            return
        print(f"\r\x1b[K{line}" if self.live else line, end="" if self.live else "\n", file=sys.stderr, flush=True)
        self.open = self.live
