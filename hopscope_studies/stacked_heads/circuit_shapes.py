"""Properties of a circuit: how it starts, whether it goes hop by hop, and which heads could be merged.

After Musat (ICLR 2025), section 8.2. A circuit is given as text, as in tables: its paths separated by "; ".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, permutations

from hopscope.problem.paths import Path
from hopscope.theory.depth import chain_of
from hopscope.theory.flow import simulate

Head = tuple[int, int]


def parsed(circuit: str) -> list[Path]:
    """The paths of a circuit."""
    return [Path.parse(text) for text in circuit.split("; ")]


def together(paths: Iterable[str]) -> str:
    """A circuit's paths as one text, for comparisons."""
    return "; ".join(sorted(paths))


def first_joins_pairs(circuit: str) -> bool:
    """Whether a path of the lowest layer in use goes from value[k] to key[k] within a chain."""
    paths = parsed(circuit)
    lowest = min(path.layer for path in paths)
    joins = [p for p in paths if p.query.replace("value", "key") == p.key and p.query != p.key and p.chain == "same"]
    return any(path.layer == lowest for path in joins)


def hop_by_hop(circuit: str, hops: int) -> bool:
    """Whether the query itself looks up x1, x2, … in ascending layers, and no fact is joined to another."""
    ascending = all(a < b < math.inf for a, b in pairwise([-1, *first_look_ups(circuit, hops)]))
    return ascending and all("query" in (p.query, p.key) or of_one_fact(p) for p in parsed(circuit))


def first_look_ups(circuit: str, hops: int) -> list[float]:
    """For x1, x2, … the first layer in which the query attends to its value; ∞ if it never does."""
    paths = [path for path in parsed(circuit) if path.query == "query" and path.chain == "same"]
    places = [f"value[{k}]" for k in range(1, hops + 1)]
    return [min((float(path.layer) for path in paths if path.key == place), default=math.inf) for place in places]


def of_one_fact(path: Path) -> bool:
    """Whether both ends are in the same fact: value[2] and key[2], or either and itself."""
    return path.query.partition("[")[2] == path.key.partition("[")[2]


def spare_heads(circuit: str, hops: int, order: str) -> int:
    """The heads of a circuit whose work another one could do in addition to its own."""
    return len({one for one, _ in merged_heads(circuit, hops, order)})


def merged_heads(circuit: str, hops: int, order: str) -> list[tuple[Head, Head]]:
    """Pairs of heads that could be merged: with the paths of the first moved into the second the task is still solved.

    One head attends from a position to one place, so both must serve different roles. This is judged by the flow of
    information alone (docs/theory.md), which hand-built models realise exactly.
    """
    paths, chain = parsed(circuit), chain_of(hops, "causal", order)
    by_head: dict[Head, list[Path]] = {}
    for path in paths:
        by_head.setdefault((path.layer, path.head), []).append(path)
    found = []
    for one, other in permutations(by_head, 2):
        apart = not {path.query for path in by_head[one]} & {path.query for path in by_head[other]}
        moved = [replace(path, layer=other[0], head=other[1]) for path in by_head[one]]
        rest = [path for path in paths if path not in by_head[one]]
        if apart and simulate(chain, [*rest, *moved]).solves:
            found.append((one, other))
    return found
