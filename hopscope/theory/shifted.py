"""Information flow with shifted keys and values, as in KV shifting attention (Xu et al., 2024, arXiv:2411.19574).

Chains, positions and pieces are those of `hopscope.theory.flow`. Keys and values of a head mix a position with the one
before. So the second token of a fact passes on what both tokens hold: a position that shares a piece with either may
attend to it, and receives the pieces of both. Every fact is thus complete before layer 0. Queries are not mixed. A
first token passes on only its own pieces, because the token before it may belong to another chain (`sheet_depth` looks
at whole sheets).

The minimum depth for D hops is ⌈log2(D+1)⌉ under a causal mask if facts come nearest or deepest first, one layer less
than without the shift, and ⌈log3(2D+1)⌉ without a mask. One head is as good as many. Proofs are in docs/theory.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from hopscope.core.settings import BadInput, check_choice
from hopscope.problem.paths import Path, place_of, role_name
from hopscope.theory.algorithms.doubling import doubling
from hopscope.theory.depth import HEADS, Heads, Mask, chain_of
from hopscope.theory.flow import Chain, Held, hull, meet, reach
from hopscope.theory.search import outermost

#: The longest chain whose one-head schedules are searched completely if there is no closed form.
SEARCHED_UP_TO = 6


def offered(held: Held) -> Held:
    """What each position passes on when it is attended to; the second token of a fact passes on what both hold.

    It is an argument of `hopscope.theory.flow.reach` and `simulate`.
    """
    return tuple(hull(held[i], held[i - 1]) if i and i % 2 == 0 else held[i] for i in range(len(held)))


def closed_form(hops: int, mask: Mask = "causal") -> int:
    """The minimum depth: under a causal mask for the two monotone orders, without a mask for any order."""
    base = 2 if mask == "causal" else 3
    needed = hops + 1 if mask == "causal" else 2 * hops + 1
    return next(t for t in range(hops + 1) if base**t >= needed)


# One head: every schedule -----------------------------------------------------------------------------------------


def solvable(chain: Chain, n_layers: int) -> bool:
    """Whether some schedule with one head per layer brings the query the last piece, by a complete search.

    In each layer every position chooses one position to attend to. Holding more is never worse, so a choice is dropped
    if its result is contained in that of another; all combinations of the remaining choices are followed.
    """
    states = {chain.start()}
    for _ in range(n_layers):
        states = undominated({after for before in states for after in successors(chain, before)})
        if any(state[0][1] == chain.last for state in states):
            return True
    return chain.last == 0


def successors(chain: Chain, before: Held) -> Iterator[Held]:
    """What all positions can hold one layer later if each attends to one."""
    offers, places = offered(before), range(chain.last + 1)
    choices = [
        {hull(own, offers[key]) for key in places if chain.sees(query, key) and meet(own, offers[key])}
        for query, own in enumerate(before)
    ]
    return itertools.product(*map(outermost, choices))


def undominated(states: set[Held]) -> set[Held]:
    """The states that no other contains at every position; above 2,000 states all, which are too many to compare."""
    if len(states) > 2000:
        return states
    inside = lambda one, other: all(o[0] <= s[0] and s[1] <= o[1] for s, o in zip(one, other, strict=True))  # noqa: E731
    return {one for one in states if not any(one != other and inside(one, other) for other in states)}


# The minimum depth ------------------------------------------------------------------------------------------------


def minimum_depth(hops: int, mask: Mask = "causal", heads: Heads = "one", order: str = "nearest_first") -> int:
    """The fewest layers after which the query can hold the answer; arguments as in `hopscope.theory.depth`.

    Raises:
        BadInput: an argument is out of range; or one head, a causal mask and an order that is not monotone are asked
            for with more than `SEARCHED_UP_TO` hops.
    """
    chain = chain_of(hops, mask, order)
    check_choice("heads", heads, HEADS)
    if mask == "none" or monotone(chain.order):
        return closed_form(hops, mask)
    if heads == "many":
        return layers_needed(chain)
    if hops > SEARCHED_UP_TO:
        raise BadInput(
            f"one head and an order that is not monotone are searched up to {SEARCHED_UP_TO} hops; "
            "ask for fewer hops, many heads, or a monotone order"
        )
    return next(n for n in range(hops + 1) if solvable(chain, n))


def monotone(order: Sequence[int]) -> bool:
    """Whether facts come nearest or deepest first."""
    return list(order) in (sorted(order), sorted(order, reverse=True))


def layers_needed(chain: Chain) -> int:
    """The fewest layers if every position attends to all that it may, which is exact for many heads."""
    held = reach(chain, closed_form(chain.hops), offered)
    return next(n for n, layer in enumerate(held) if layer[0][1] == chain.last)


def schedule(hops: int, order: Sequence[int]) -> list[Path]:
    """A schedule of ⌈log2(D+1)⌉ layers: pointer doubling without the layer that joins the two tokens of each fact.

    If a block of facts is joined to one on its left, its first token attends, because it holds the symbol between them.
    """
    paths = [path for path in doubling(hops, order, True, "query") if path.layer]
    return sorted(Path(path.layer - 1, path.head, joining(path), path.key) for path in paths)


def joining(path: Path) -> str:
    """The token of a fact that attends: the first one if the other fact is on its left, since queries are not mixed."""
    query, key = place_of(path.query), place_of(path.key)
    return role_name(query - 1) if key < query else path.query


# Whole sheets -----------------------------------------------------------------------------------------------------


def sheet_depth(facts: Sequence[tuple[int, int]], hops: int, n_chains: int) -> list[int]:
    """The fewest layers after which each query can hold its answer, on a sheet of all chains, under a causal mask.

    Every position passes on what it and the position before it hold, of whichever fact, and attends to all positions
    with which it shares a piece. Positions hold sets of pieces of all chains, as bits. Fewer layers than
    `minimum_depth` suffice if facts of one chain happen to be adjacent.

    Args:
        facts: (chain, step) of each fact in the order of presentation; chains are counted from 0, steps from 1.
        hops: D.
        n_chains: N; the queries follow the facts.

    Returns:
        The number of layers for each chain; 0 if D + 1 layers do not suffice.
    """
    size = 2 * hops + 1
    bit = lambda chain, piece: 1 << (chain * size + piece)  # noqa: E731
    shown = [bit(c, 2 * k - 1) | bit(c, piece) for c, k in facts for piece in (2 * k - 2, 2 * k)]
    first = len(shown)
    held = shown + [bit(chain, 0) for chain in range(n_chains)]
    layers = [0] * n_chains
    for layer in range(hops + 2):
        for chain in range(n_chains):
            if not layers[chain] and held[first + chain] & bit(chain, size - 1):
                layers[chain] = layer
        if all(layers):
            break
        offers = [held[i] | (held[i - 1] if 0 < i < first else 0) for i in range(len(held))]
        before = list(held)
        for query, own in enumerate(before):
            for key in range(min(query, first - 1) + 1):
                if own & offers[key]:
                    held[query] |= offers[key]
    return layers
