"""Numbers and lists in sentences: `1 run`, `2 runs`; `a, b and c`; shapes as `4 × 64`; durations; types of values."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable


def count(number: int, thing: str, things: str = "") -> str:
    """A number with its noun: `1 run`, `2 runs`, `1,000 runs`."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """A list in words: `a`, `a and b`, `a, b and c`."""
    *first, end = words
    if not first:
        return end
    return f"{', '.join(first)} {last} {end}"


def shape(sizes: Iterable[int]) -> str:
    """A tensor's sizes: `4 × 64`; `a single number` if it has none."""
    return " × ".join(map(str, sizes)) or "a single number"


def kind(given: object) -> str:
    """What was given, where something else was expected: `a list`, `a Tensor of shape (2, 3)`."""
    return f"a {type(given).__name__}" + (f" of shape {tuple(given.shape)}" if hasattr(given, "shape") else "")


def one_line(error: Exception) -> str:
    """The first line of an error's message, or the error's type."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def beside(name: str, words: str, width: int, indent: int) -> str:
    """Text wrapped to `width` columns beside a name, from column `indent` on; no word is broken."""
    first, then = name.ljust(indent), " " * indent
    whole = textwrap.TextWrapper(width, first, then, break_long_words=False, break_on_hyphens=False)
    return whole.fill(words)


UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """A duration in seconds, for people: `0.4 s`, `40 s`, `12 min`, `1 h 20 min`, `2 days 3 h`, `23 days`.

    An infinite one is `ever`.
    """
    if not math.isfinite(seconds):
        return "ever"
    for (unit, name), (part, small) in itertools.pairwise(UNITS):
        if seconds >= max(unit, 100):
            if seconds >= 10 * unit:
                return in_unit(round(seconds / unit), name)
            whole, rest = divmod(round(seconds / part), unit // part)
            return in_unit(whole, name) + (f" {in_unit(rest, small)}" if rest else "")
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def in_unit(number: int, unit: str) -> str:
    """`1 day`, `2 days`; other units are abbreviated."""
    return count(number, unit) if unit == "day" else f"{number} {unit}"
