"""Circuits up to isomorphism: which ones have the same wiring, in whatever layers and heads.

Two circuits belong to one class if moving paths of the first to other layers and heads gives the second, and every path
still reads the output of the same paths. This definition is ours; docs/contracts.md defines paths and what they read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hopscope.problem.paths import Path


def wiring(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The representative of a circuit's class: every path is in the lowest layer in which all paths read the same.

    A path reads the residual stream at its query and at its key, so it reads what paths of lower layers wrote there. So
    a path stays above the paths that it reads, and a path that it does not read never moves below it. Heads carry no
    meaning; they number paths between the same positions in the same layer.

    Args:
        paths: of a circuit, in any order.

    Returns:
        The paths, sorted. Two circuits belong to one class if, and only if, their results are equal.
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
    """The lowest layer of each path, from 0, for which every path still reads the same others.

    Layers start at 0 and are raised only where a constraint demands it. The given layers meet all constraints, so none
    is raised above its given layer, and the loop ends with the lowest solution.
    """
    lowest = [0] * len(paths)
    bounds = [
        (writer, reader, paths[writer].layer < paths[reader].layer)
        for reader in range(len(paths))
        for writer in range(len(paths))
        if writer != reader and paths[writer].query in (paths[reader].query, paths[reader].key)
    ]
    while True:
        before = list(lowest)
        for writer, reader, reads in bounds:
            if reads:
                lowest[reader] = max(lowest[reader], lowest[writer] + 1)
            else:
                lowest[writer] = max(lowest[writer], lowest[reader])
        if lowest == before:
            return lowest


def written(paths: Sequence[Path]) -> str:
    """A class as text for tables: its paths in short form, layer by layer, separated by `; `. `read` parses it."""
    return "; ".join(map(str, wiring(paths)))


def read(text: str) -> tuple[Path, ...]:
    """Parse the text of `written` into paths; an empty text has none. Raises BadInput for text that is not a path."""
    return tuple(Path.parse(part) for part in text.split("; ")) if text else ()
