"""Parts of sentences about circuits: numbers, ranges, and the short names of heads and paths."""

from __future__ import annotations

from collections.abc import Iterable

from hopscope.core.wording import listed
from hopscope.problem.paths import Path

COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def spans(numbers: Iterable[int]) -> str:
    """Numbers as ranges, such as `0 and 5–11`; a range has three numbers or more."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return listed(
        word for run in runs for word in ([f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(number) for number in run])
    )


def digits(loss: float, of: float = 1.0) -> str:
    """A loss with two significant digits: `0.60`, `0.0024`, `12`; `0` if it is below a millionth of the unit `of`."""
    if abs(loss) < 1e-6 * of:
        return "0"
    return f"{loss:#.2g}".rstrip(".") if abs(loss) < 100 else f"{loss:.0f}"


def count(n: int, noun: str) -> str:
    """`one head`, `4 heads`."""
    return f"{COUNTS[n] if n < 2 else n} {noun}{'' if n == 1 else 's'}"


def times(n: int) -> str:
    """`twice`, `three times`, `12 times`."""
    return "twice" if n == 2 else f"{COUNTS[n] if n < len(COUNTS) else n} times"


def head_of(path: Path) -> str:
    """`L1H0`."""
    return f"L{path.layer}H{path.head}"


def path_name(path: Path) -> str:
    """A path as `L1H0 query→value[1]`, with an arrow at which no line breaks. `Path.parse` reads it, too."""
    return str(path).replace("->", "→")


def arrow(path: Path) -> str:
    """A path without its head: `query→value[1]`."""
    return f"{path.query}→{path.key}" + (" of other chains" if path.chain == "other" else "")
