"""One hop after the other: what the paper's Transformer A does with three hops (section 8).

`chain` merging: facts first become whole at their second tokens, then the query attends to one of them per layer:
D + 1 layers. `query` merging: the query does it alone, and finds each fact's first token by its symbol, then the second
by its position: 2D layers.
"""

from __future__ import annotations

from collections.abc import Sequence

from hopscope.problem.paths import Path
from hopscope.theory.algorithms.base import check_merging, pair_up


def linear(hops: int, order: Sequence[int], causal: bool, merging: str) -> list[Path]:
    """The schedule, sorted; it does not depend on order or mask."""
    check_merging(merging)
    steps = range(1, hops + 1)
    if merging == "chain":
        return sorted(pair_up(steps) + [Path(k, 0, "query", f"value[{k}]") for k in steps])
    looks = [Path(2 * k - 2, 0, "query", f"key[{k}]") for k in steps]
    moves = [Path(2 * k - 1, 0, "query", f"value[{k}]") for k in steps]
    return sorted(looks + moves)
