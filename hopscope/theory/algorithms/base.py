"""Shared by algorithms: the order of facts, and gathering blocks of hops by divide and conquer.

An algorithm is a function `(hops, order, causal, merging) -> list[Path]`. `order` lists the steps, counted from 1, in
the order of presentation. `merging` says where facts are merged: with `query`, at the query, as early as possible; with
`chain`, at the facts, so that the query reads as late as possible.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.core.settings import check_choice
from hopscope.problem.paths import Path

MERGINGS = ("query", "chain")


def check_merging(merging: str) -> None:
    """Raise BadInput unless it is one of `MERGINGS`."""
    check_choice("merging", merging, MERGINGS)


def pair_up(hops: Sequence[int]) -> list[Path]:
    """Layer 0: the second token of each fact attends to its first, so that one position holds the complete fact."""
    return [Path(0, 0, f"value[{k}]", f"key[{k}]") for k in hops]


def gather(first: int, last: int, order: Sequence[int]) -> tuple[int, int, list[Path]]:
    """Paths after which one position holds all facts from hop `first` to hop `last`.

    Both halves are gathered in parallel. Then, of the two positions that hold them, the later one attends to the
    earlier one, so that a causal mask allows it. That takes ⌈log2(size)⌉ layers after layer 0.

    Returns:
        The hop whose second token holds the block, the number of layers, layer 0 included, and the paths.
    """
    if first == last:
        return first, 1, pair_up([first])
    middle = (first + last) // 2
    left, left_depth, left_paths = gather(first, middle, order)
    right, right_depth, right_paths = gather(middle + 1, last, order)
    later, earlier = sorted((left, right), key=order.index, reverse=True)
    depth = max(left_depth, right_depth)
    meeting = Path(depth, 0, f"value[{later}]", f"value[{earlier}]")
    return later, depth + 1, [*left_paths, *right_paths, meeting]
