"""Circuits up to isomorphism: which are the same wiring, though in other layers and heads.

Two circuits are of one class if paths of the one can be moved to other layers and heads so that it becomes the other,
and nobody thereby reads what he did not read before, or misses what he read. The definition is ours; that of a path,
and what it reads, is that of docs/contracts.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hopscope.problem.paths import Path


def wiring(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The circuit that stands for a class: every path in the lowest layer that leaves unchanged what each reads.

    A path reads what stands at its query and at its key, so it reads what paths of lower layers wrote there. Where two
    paths share a place, the order of their layers is kept: strictly where the one reads the other, and where it does
    not it stays no higher. Heads do not matter; they number paths of the same ends that stand in the same layer.

    Args:
        paths: of a circuit, in any order.

    Returns:
        The paths, sorted. Two circuits are of one class if, and only if, they have the same.
    """
    lowest = lowest_layers(paths)
    moved = sorted(replace(path, layer=layer, head=0) for path, layer in zip(paths, lowest, strict=True))
    twins: Counter[Path] = Counter()
    numbered = []
    for path in moved:
        numbered.append(replace(path, head=twins[path]))
        twins[path] += 1
    return tuple(sorted(numbered))


def lowest_layers(paths: Sequence[Path]) -> list[int]:
    """The least layers, from 0, that keep who reads whom.

    The given layers keep it, so to raise what is too low, until nothing is, ends at or below them, at the least.
    """
    found = [0] * len(paths)
    bounds = [
        (writer, reader, paths[writer].layer < paths[reader].layer)
        for reader in range(len(paths))
        for writer in range(len(paths))
        if writer != reader and paths[writer].query in (paths[reader].query, paths[reader].key)
    ]
    while True:
        before = list(found)
        for writer, reader, reads in bounds:
            if reads:
                found[reader] = max(found[reader], found[writer] + 1)
            else:
                found[writer] = max(found[writer], found[reader])
        if found == before:
            return found


def written(paths: Sequence[Path]) -> str:
    """A class as text, such as tables hold: its paths in brief, layer by layer, with `; ` between. `read` undoes it."""
    return "; ".join(map(str, wiring(paths)))


def read(text: str) -> tuple[Path, ...]:
    """The paths of a class that `written` wrote; none of an empty text. Raises BadInput for what is no path."""
    return tuple(Path.parse(part) for part in text.split("; ")) if text else ()
