"""Layers that share their weights over depth: how often a block of them must run (docs/theory.md, "Looped depth").

Where a position may attend to any number of others sharing is free, for "everyone attends to everyone that he may" is
the same rule in every layer, and no schedule brings more. What a given few heads can do a search decides.
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
    """The fewest loops of a block after which the query can hold the answer, and the heads that this takes.

    Args:
        hops: D.
        own_layers: L, the layers of the block.
        mask: `causal`, or `none`.
        order: as of `hopscope.theory.depth`.
        limit: how many schedules the search for heads may meet.

    Returns:
        The loops, ⌈least depth / L⌉. And to how many others a position must attend in a layer, if it attends to the
        same ones in every loop (one with which it shares no piece yet brings nothing): the least number that will do.

    Raises:
        BadInput: no such chain or block, or there are more schedules than `limit`.
    """
    if own_layers < 1:
        raise BadInput(f"own layers must be at least 1; got {own_layers}")
    loops = -(-minimum_depth(hops, mask, "many", order).min_layers // own_layers)
    found = Search(chain_of(hops, mask, order), (2,) * own_layers * loops).all(limit)
    return loops, min(heads_shared(paths, own_layers) for paths in found)


def heads_shared(paths: Sequence[Path], own_layers: int) -> int:
    """To how many others a position attends at most in a layer, once all loops of a schedule are put into one.

    Paths that are added to a schedule take nothing away, so the block with all of them brings the answer. Conversely, a
    schedule whose loops are alike holds one of those that the search finds, and has its paths in every loop.
    """
    attended = defaultdict(set)
    for path in paths:
        attended[path.layer % own_layers, path.query].add(path.key)
    return max(map(len, attended.values()))
