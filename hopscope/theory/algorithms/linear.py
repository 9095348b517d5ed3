"""One hop after the other, as the paper's Transformer A solves three hops (Musat, ICLR 2025, section 8).

With `chain` merging, the second token of each fact first attends to the first one; then the query attends to one fact
per layer: D + 1 layers. With `query` merging, only the query attends: to the first token of each fact, which has the
symbol that it holds, then to the second one, which has the same position: 2D layers.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.problem.paths import Path
from hopscope.theory.algorithms.base import check_merging, pair_up


def linear(hops: int, order: Sequence[int], causal: bool, merging: str) -> list[Path]:
    """The schedule, sorted; order and mask do not matter."""
    check_merging(merging)
    steps = range(1, hops + 1)
    if merging == "chain":
        return sorted(pair_up(steps) + [Path(k, 0, "query", f"value[{k}]") for k in steps])
    looks = [Path(2 * k - 2, 0, "query", f"key[{k}]") for k in steps]
    moves = [Path(2 * k - 1, 0, "query", f"value[{k}]") for k in steps]
    return sorted(looks + moves)
