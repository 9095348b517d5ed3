"""Pointer doubling: every layer doubles the hops, so D hops take ⌈log2(D+1)⌉ + 1 layers, the minimum if causal.

The query reads blocks of 1, 2, 4 … hops. Each block is gathered while the query reads the earlier ones
(docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hopscope.problem.paths import Path
from hopscope.theory.algorithms.base import check_merging, gather


def doubling(hops: int, order: Sequence[int], causal: bool, merging: str) -> list[Path]:
    """The schedule, sorted. It obeys a causal mask for any order of the facts, and also works without a mask."""
    check_merging(merging)
    n_layers = hops.bit_length() + 1  # ⌈log2(hops + 1)⌉ + 1
    paths, known = [], 0
    for layer, size in blocks(hops, n_layers, merging):
        holder, ready, gathering = gather(known + 1, known + size, order)
        assert ready <= layer, "a block must be gathered before it is read"
        paths += [*gathering, Path(layer, 0, "query", f"value[{holder}]")]
        known += size
    return sorted(paths)


def blocks(hops: int, n_layers: int, merging: str) -> Iterator[tuple[int, int]]:
    """(layer, number of hops that the query reads in it): at most 2^(l−1) in layer l, which take l layers to gather."""
    sizes, left = {}, hops
    layers = range(1, n_layers)
    for layer in layers if merging == "query" else reversed(layers):
        sizes[layer] = min(left, 2 ** (layer - 1))
        left -= sizes[layer]
    return ((layer, sizes[layer]) for layer in layers if sizes[layer])
