"""Parts of the sentences about circuits: numbers, ranges, and paths in their short form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hopscope.core.wording import listed
from hopscope.problem.paths import Path

COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def spans(numbers: Iterable[int]) -> str:
    """Numbers as ranges: `0 and 5–11`; two in a row are not worth a dash."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return listed(
        word for run in runs for word in ([f"{run[0]}–{run[-1]}"] if len(run) > 2 else [str(number) for number in run])
    )


def unused_layers(used: Iterable[int], n_layers: int) -> str:
    """`Layers 0 and 5–11 are not used.`; empty where all are."""
    idle = sorted(set(range(n_layers)) - set(used))
    if not idle:
        return ""
    return f"Layer{'s' * (len(idle) > 1)} {spans(idle)} {'are' if len(idle) > 1 else 'is'} not used."


def digits(loss: float, of: float = 1.0) -> str:
    """A loss with two digits that count: `0.60`, `0.0024`, `12`; what is below a millionth `of` the unit is `0`."""
    if abs(loss) < 1e-6 * of:
        return "0"
    return f"{loss:#.2g}".rstrip(".") if abs(loss) < 100 else f"{loss:.0f}"


def count(n: int, noun: str) -> str:
    """`one head`, `4 heads`."""
    return f"{COUNTS[n] if n < 2 else n} {noun}{'' if n == 1 else 's'}"


def times(n: int) -> str:
    return "twice" if n == 2 else f"{COUNTS[n] if n < len(COUNTS) else n} times"


def do(things: Sequence[object]) -> str:
    return "does" if len(things) == 1 else "do"


def head_of(path: Path) -> str:
    return f"L{path.layer}H{path.head}"


def told(path: Path) -> str:
    """A path in its short form, with an arrow at which no line breaks; `Path.parse` reads it too."""
    return str(path).replace("->", "→")


def arrow(path: Path) -> str:
    """A path without its head."""
    return f"{path.query}→{path.key}" + (" of other chains" if path.chain == "other" else "")
