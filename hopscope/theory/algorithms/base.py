"""What algorithms share: the order of the facts, and blocks of hops gathered by repeated halving.

An algorithm is a function `(hops, order, causal, merging) -> list[Path]`. `order` lists the steps, counted from 1, as
they are presented. `merging` says who does the work: `query`, the query as soon as it can; `chain`, the facts, and
the query as late as it can.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path

MERGINGS = ("query", "chain")


def check_merging(merging: str) -> None:
    if merging not in MERGINGS:
        raise BadInput(f"merging must be one of {', '.join(MERGINGS)}; got {merging!r}")


def pair_up(hops: Sequence[int], head: int = 0) -> list[Path]:
    """Layer 0: the second token of each fact attends to its first, so that the fact is whole at one position."""
    return [Path(0, head, f"value[{k}]", f"key[{k}]") for k in hops]


def gather(first: int, last: int, order: Sequence[int]) -> tuple[int, int, list[Path]]:
    """Paths by which one position comes to hold all facts from hop `first` to hop `last`.

    The halves gather at the same time, then the half whose holder is presented later attends to the other: under a
    causal mask it can, for whatever order. That takes ⌈log2(size)⌉ layers after layer 0.

    Returns:
        The hop whose second token holds the block, the number of layers that it takes, with layer 0, and the paths.
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
