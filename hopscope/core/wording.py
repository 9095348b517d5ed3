"""Numbers and lists in sentences: `1 run`, `2 runs`; `a, b and c`; shapes as `4 × 64`; times that may have no end."""

from __future__ import annotations

import math
from collections.abc import Iterable


def count(number: int, thing: str, things: str = "") -> str:
    """`1 run`, `2 runs`, `1,000 runs`."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, end = words
    if not first:
        return end
    return f"{', '.join(first)} {last} {end}"


def shape(sizes: Iterable[int]) -> str:
    """Sizes of a tensor: `4 × 64`; of a single number `a single number`."""
    return " × ".join(map(str, sizes)) or "a single number"


def duration(seconds: float) -> str:
    """A time for people: `0.4 s`, `40 s`, `12 min`, `3.5 h`, `2.1 days`, `ever`."""
    if not math.isfinite(seconds):
        return "ever"
    for least, unit, name in ((172_800, 86_400, "days"), (7_200, 3_600, "h"), (120, 60, "min")):
        if seconds >= least:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
