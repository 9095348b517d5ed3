"""A circuit drawn in characters, for terminals, logs and `print`: roles side by side, layers one above the other.

As in the pictures, time runs upwards. A line goes up from each role as far as the last layer that reads or writes
there. An arrow leads from the role that a head reads to the role that it writes to. A circuit too wide to be drawn is
listed instead.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hopscope.circuits.speech import arrow
from hopscope.core.wording import beside
from hopscope.problem.paths import Path

if TYPE_CHECKING:
    from hopscope.circuits.units import Unit  # with which PyTorch comes

WIDTH = 80  # characters, by default
MARGIN = 9  # for the layers' names
NARROWEST, WIDEST = 6, 14  # characters from one role to the next
TALLEST = 4  # most lines for the names of roles
LAST = "each", "query"  # roles that stand at the right
LISTED = 16  # most paths of a layer in a list

#: The sentences of a drawing's legend, by the character that each explains.
LEGEND = {
    "┄": "Dotted: reads from other chains.",
    "@": "@: reads at its own role.",
    "#": "#: a whole row, wherever it attends.",
}


def drawing(units: Iterable[Unit], width: int = WIDTH) -> str:
    """The circuit as lines of at most `width` characters; empty if it has no unit.

    Args:
        units: its paths, and the rows that it needs whole.
        width: in characters, at least 40.
    """
    every = sorted(units, key=lambda unit: (unit.layer, unit.head, [*map(place, ends_of(unit))], str(unit)))
    names = sorted({role for unit in every for role in ends_of(unit)}, key=place)
    pitch = min(WIDEST, (width - MARGIN) // max(1, len(names)))
    at = {name: MARGIN + pitch // 2 + n * pitch for n, name in enumerate(names)}
    if not every or pitch < NARROWEST or not (below := named(at, width)):
        return "\n".join(listing(every, width))
    top = {name: max(unit.layer for unit in every if name in ends_of(unit)) for name in names}
    lines: list[str] = []
    for layer, group in itertools.groupby(every, lambda unit: unit.layer):
        streams = [at[name] for name in names if top[name] >= layer]
        rows = list(packed(group, at))
        lines += [overlaid(streams, row, f"layer {layer}" if row is rows[-1] else "") for row in rows]
    legend = [words for sign, words in LEGEND.items() if any(sign in line[MARGIN:] for line in lines)]
    how = "Time runs upwards; arrows lead from what a head reads to where it writes."
    return "\n".join([*reversed(lines), *below, "", *textwrap.wrap(" ".join([how, *legend]), width)])


def ends_of(unit: Unit) -> tuple[str, ...]:
    """The roles of a unit: the attending one first, then, of a path, the attended one."""
    return (unit.query, unit.key) if isinstance(unit, Path) else (unit.query,)


def place(role: str) -> tuple[int, int, str]:
    """The sort key of a role: facts and relations by their numbers, the query last."""
    number = re.search(r"\d+", role)
    return LAST.index(role) if role in LAST else -1, int(number[0]) if number else 0, role


def named(at: Mapping[str, int], width: int) -> list[str]:
    """The names under their columns, on as few lines as possible; no line if more than `TALLEST` would be needed."""
    for tall in range(1, TALLEST + 1):
        lines = [[" "] * width for _ in range(tall)]
        for n, (name, column) in enumerate(at.items()):
            start = max(0, min(column - len(name) // 2, width - len(name)))
            taken = lines[n % tall][max(0, start - 1) : start + len(name) + 1]
            if len(name) > width or "".join(taken).strip(" │"):
                break
            lines[n % tall][start : start + len(name)] = name
            for above in lines[: n % tall]:
                above[column] = "│" if above[column] == " " else above[column]
        else:
            return ["".join(line).rstrip() for line in lines]
    return []


def packed(units: Iterable[Unit], at: Mapping[str, int]) -> Iterator[list[tuple[int, str]]]:
    """A layer's arrows in lines without overlap, each with its first column; short arrows in the lowest line."""
    left = sorted((arrow_of(unit, at) for unit in units), key=lambda one: (len(one[1]), one))
    while left:
        line: list[tuple[int, str]] = []
        for start, words in left:
            if all(start > other + len(its) or start + len(words) < other for other, its in line):
                line.append((start, words))
        left = [one for one in left if one not in line]
        yield line


def arrow_of(unit: Unit, at: Mapping[str, int]) -> tuple[int, str]:
    """The first column of a unit's arrow, and its characters."""
    if not isinstance(unit, Path):
        return at[unit.query], f"#H{unit.head}"
    dash, (x0, x1) = ("─" if unit.chain == "same" else "┄"), (at[unit.key], at[unit.query])
    if x0 == x1:
        return x0, f"@{dash * (unit.chain == 'other')}H{unit.head}"
    label, long = f"{dash}H{unit.head}", abs(x1 - x0)
    if x0 < x1:
        return x0, f"├{label}".ljust(long - 1, dash) + "▶│"
    return x1, "│◀" + f"H{unit.head}{dash}┤".rjust(long - 1, dash)


def overlaid(streams: Sequence[int], arrows: Iterable[tuple[int, str]], name: str) -> str:
    """A line of the drawing: a layer's name, the streams that are still read, and arrows across them."""
    line = list(name.ljust(max(streams) + 2))
    for column in streams:
        line[column] = "│"
    for start, words in arrows:
        line += " " * (start + len(words) - len(line))
        for column, sign in enumerate(words, start):
            line[column] = "┼" if line[column] == "│" and sign == "─" else sign
    return "".join(line).rstrip()


def listing(units: Iterable[Unit], width: int) -> Iterator[str]:
    """A paragraph per layer, the last layer first: who attends to whom."""
    layers = [(layer, list(group)) for layer, group in itertools.groupby(units, lambda unit: unit.layer)]
    for layer, group in reversed(layers):
        said = [f"H{one.head}\u00a0{arrow(one) if isinstance(one, Path) else one.query}" for one in group]
        more = [f"and {len(said) - LISTED} more"] if len(said) > LISTED else []
        yield beside(f"layer {layer}", ", ".join(said[:LISTED] + more), width, MARGIN).replace("\u00a0", " ")


def wiring(unit: str, kept: Iterable[str], width: int = WIDTH) -> str:
    """A circuit of components from the logits down: for edges what each reads, for nodes what each layer keeps."""
    reads: dict[str, list[str]] = {}
    for one in sorted(kept, key=lambda one: (depth_of(one), one)):
        source, _, reader = one.partition("->")
        reads.setdefault(reader if unit == "edges" else f"layer {depth_of(one)}", []).append(source)
    lines, named = [], ""
    for reader in sorted(reads, key=lambda reader: (-depth_of(reader), reader)):
        name = f"layer {depth_of(reader)}" if depth_of(reader) < LOGITS else ""
        words = ", ".join(reads[reader])
        said = f"{reader} ← {words}" if unit == "edges" else words
        lines.append(beside(name * (name != named), said, width, MARGIN))
        named = name
    return "\n".join(lines)


#: The depth of the logits, after all layers.
LOGITS = 1_000_000


def depth_of(node: str) -> int:
    """A component's layer; −1 for the input."""
    number = re.search(r"\d+", node)
    return int(number[0]) if number else {"input": -1}.get(node, LOGITS)
