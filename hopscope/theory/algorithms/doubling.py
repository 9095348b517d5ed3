"""Pointer doubling: as many hops again with every layer, so D of them in ⌈log2(D+1)⌉ + 1 layers, the causal minimum.

The query reads blocks of 1, 2, 4 … hops, each gathered while the query reads those before it (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hopscope.problem.paths import Path
from hopscope.theory.algorithms.base import check_merging, gather


def doubling(hops: int, order: Sequence[int], causal: bool, merging: str) -> list[Path]:
    """The schedule, sorted. It keeps a causal mask whatever the order of the facts; without a mask it works as well."""
    check_merging(merging)
    n_layers = (hops).bit_length() + 1  # ⌈log2(hops + 1)⌉ + 1
    paths, known = [], 0
    for layer, size in blocks(hops, n_layers, merging):
        holder, ready, gathering = gather(known + 1, known + size, order)
        assert ready <= layer, "a block must be gathered before it is read"
        paths += [*gathering, Path(layer, 0, "query", f"value[{holder}]")]
        known += size
    return sorted(paths)


def blocks(hops: int, n_layers: int, merging: str) -> Iterator[tuple[int, int]]:
    """(layer, how many hops the query reads there): at layer l at most 2^(l-1), for they took l layers to gather."""
    sizes, left = {}, hops
    layers = range(1, n_layers)
    for layer in layers if merging == "query" else reversed(layers):
        sizes[layer] = min(left, 2 ** (layer - 1))
        left -= sizes[layer]
    return ((layer, sizes[layer]) for layer in layers if sizes[layer])
