"""Layers that share their weights over depth: how often a block of them must run (docs/theory.md, "Looped depth").

If a position may attend to any number of others, sharing weights costs nothing: "attend to every position that you may"
is the same rule in every layer, and no schedule does better. How few heads suffice is found by a search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.theory.depth import Mask, chain_of, minimum_depth
from hopscope.theory.search import Search


def minimum_loops(
    hops: int, own_layers: int = 1, mask: Mask = "causal", order: str = "nearest_first", limit: int = 20_000
) -> tuple[int, int]:
    """The fewest loops of a block after which the query can hold the answer, and the heads per layer that they need.

    Args:
        hops: D.
        own_layers: L, the number of layers in the block.
        mask: `causal` or `none`.
        order: as in `hopscope.theory.depth`.
        limit: how many schedules the search for heads may find.

    Returns:
        The loops, ⌈minimum depth / L⌉, and the fewest heads per layer. A position attends to the same others in every
        loop; one with which it shares no piece yet brings nothing.

    Raises:
        BadInput: an argument is out of range, or there are more schedules than `limit`.
    """
    if own_layers < 1:
        raise BadInput(f"own layers must be at least 1; got {own_layers}")
    loops = -(-minimum_depth(hops, mask, "many", order).min_layers // own_layers)
    schedules = Search(chain_of(hops, mask, order), (2,) * own_layers * loops).all(limit)
    return loops, min(heads_shared(paths, own_layers) for paths in schedules)


def heads_shared(paths: Sequence[Path], own_layers: int) -> int:
    """The most positions that one position attends to in one layer, if the paths of all loops are put into one block.

    Adding paths to a schedule never removes a piece, so the block with all of them solves the chain. Conversely, a
    schedule with equal loops contains one of the schedules that the search finds, and has its paths in every loop.
    """
    attended = defaultdict(set)
    for path in paths:
        attended[path.layer % own_layers, path.query].add(path.key)
    return max(map(len, attended.values()))
