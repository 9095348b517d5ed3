"""Information flow where keys and values are shifted, as in KV shifting attention (Xu et al., 2024, arXiv:2411.19574).

Chains, places and pieces are those of `hopscope.theory.flow`. A head whose keys and values blend a position with the
one before offers, at the second token of a fact, what both tokens hold: whoever shares a piece with either may attend,
and receives both. So every fact is whole before layer 0. Queries are not blended; a first token offers itself alone,
since what stands before it belongs, in the worst draw, to another chain (`sheet_depth` looks at whole sheets).

The least number of layers for D hops is ⌈log2(D+1)⌉ under a causal mask where facts come nearest or deepest first, one
fewer than without the shift, and ⌈log3(2D+1)⌉ without a mask; one head does what many do. Proofs: docs/theory.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path, place_of, role_name
from hopscope.theory import flow
from hopscope.theory.algorithms.doubling import doubling
from hopscope.theory.depth import Heads, Mask, chain_of, check_heads
from hopscope.theory.flow import Chain, Flow, Held, Interval, hull, meet
from hopscope.theory.search import outermost

#: The longest chain whose one-head schedules are searched completely, where no formula tells.
SEARCHED_UP_TO = 6


def offered(held: Held) -> Held:
    """What each position offers to whoever attends to it: of a fact's second token what both tokens hold."""
    return tuple(hull(held[i], held[i - 1]) if i and i % 2 == 0 else held[i] for i in range(len(held)))


def closed_form(hops: int, mask: Mask = "causal") -> int:
    """The least number of layers, for the two monotone orders where there is a causal mask, and for any without."""
    base = 2 if mask == "causal" else 3
    needed = hops + 1 if mask == "causal" else 2 * hops + 1
    return next(t for t in range(hops + 1) if base**t >= needed)


def simulate(chain: Chain, paths: Iterable[Path]) -> Flow:
    """Let information flow along paths, as `hopscope.theory.flow.simulate` does, with shifted keys and values."""
    return flow.simulate(chain, paths, offered)


# Many heads: everyone attends to everyone -------------------------------------------------------------------------


def reach(chain: Chain, n_layers: int) -> list[Held]:
    """What every position holds at best before any layer and after each, with any number of heads."""
    held = [chain.start()]
    for _ in range(n_layers):
        before, offers = held[-1], offered(held[-1])
        held.append(tuple(grown(chain, before, offers, query) for query in range(chain.last + 1)))
    return held


def grown(chain: Chain, before: Held, offers: Held, query: int) -> Interval:
    """All that a position gets in one layer, if it attends to all that it may."""
    joined = [hull(before[query], offers[key]) for key in attended(chain, before, offers, query)]
    return min(low for low, _ in joined), max(high for _, high in joined)


def attended(chain: Chain, before: Held, offers: Held, query: int) -> list[int]:
    """To whom a position may attend, itself included."""
    return [k for k in range(chain.last + 1) if chain.sees(query, k) and meet(before[query], offers[k])]


# One head: every schedule -----------------------------------------------------------------------------------------


def solvable(chain: Chain, n_layers: int) -> bool:
    """Whether some schedule of one head a layer brings the query the last piece: a complete search.

    In each layer every position chooses whom to attend to. Whoever holds more can do all that it could before, so of a
    position's choices only those are followed whose result lies in no other's; all combinations of these are.
    """
    states = {chain.start()}
    for _ in range(n_layers):
        states = undominated({after for before in states for after in successors(chain, before)})
        if any(state[0][1] == chain.last for state in states):
            return True
    return chain.last == 0


def successors(chain: Chain, before: Held) -> Iterator[Held]:
    """What all positions can hold a layer later, each attending to one."""
    offers = offered(before)
    choices = [
        outermost({hull(before[query], offers[key]) for key in attended(chain, before, offers, query)})
        for query in range(chain.last + 1)
    ]
    return itertools.product(*choices)


def undominated(states: set[Held]) -> set[Held]:
    """Those that are inside no other, place by place; all of them, where there are too many to compare."""
    if len(states) > 2000:
        return states
    inside = lambda one, other: all(o[0] <= s[0] and s[1] <= o[1] for s, o in zip(one, other, strict=True))  # noqa: E731
    return {one for one in states if not any(one != other and inside(one, other) for other in states)}


# The least depth --------------------------------------------------------------------------------------------------


def minimum_depth(hops: int, mask: Mask = "causal", heads: Heads = "one", order: str = "nearest_first") -> int:
    """The fewest layers after which the query can hold the answer; arguments as of `hopscope.theory.depth`.

    Raises BadInput, also for one head, a causal mask and an order that is not monotone beyond `SEARCHED_UP_TO` hops.
    """
    chain = chain_of(hops, mask, order)
    check_heads(heads)
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
    """The fewest layers if everyone attends to everyone that it may: exact for many heads."""
    held = reach(chain, closed_form(chain.hops))
    return next(n for n, layer in enumerate(held) if layer[0][1] == chain.last)


def schedule(hops: int, order: Sequence[int], causal: bool = True) -> list[Path]:
    """A schedule of ⌈log2(D+1)⌉ layers: pointer doubling, without the layer that joins the tokens of each fact.

    Where a block of facts is joined to one on its left, its first token attends, for it knows the symbol between them.
    """
    paths = [path for path in doubling(hops, order, causal, "query") if path.layer]
    return sorted(Path(path.layer - 1, path.head, joining(path), path.key) for path in paths)


def joining(path: Path) -> str:
    """Which token of a fact attends: to a fact on its left the first one, whose query is not blended."""
    query, key = place_of(path.query), place_of(path.key)
    return role_name(query - 1) if key < query else path.query


# Whole sheets -----------------------------------------------------------------------------------------------------


def sheet_depth(facts: Sequence[tuple[int, int]], hops: int, n_chains: int) -> list[int]:
    """For each chain the layers after which its query can hold its answer, on a whole sheet of facts, causal.

    Here each position offers what it and the one before it hold, whichever fact that belongs to; what is held are sets
    of pieces of all chains, as bits, and everyone attends to everyone that shares one. Fewer layers than
    `minimum_depth` are a draw's luck: where facts of one chain happen to stand side by side.

    Args:
        facts: (chain, step) of each fact in the order of presentation, steps counted from 1.
        hops: D.
        n_chains: N; the queries stand behind the facts, each alone.
    """
    size = 2 * hops + 1
    bit = lambda chain, piece: 1 << (chain * size + piece)  # noqa: E731
    shown = [bit(c, 2 * k - 1) | bit(c, piece) for c, k in facts for piece in (2 * k - 2, 2 * k)]
    first = len(shown)
    held = shown + [bit(chain, 0) for chain in range(n_chains)]
    found = [0] * n_chains
    for layer in range(hops + 2):
        for chain in range(n_chains):
            if not found[chain] and held[first + chain] & bit(chain, size - 1):
                found[chain] = layer
        if all(found):
            break
        offers = [held[i] | (held[i - 1] if 0 < i < first else 0) for i in range(len(held))]
        before = list(held)
        for query, own in enumerate(before):
            for key in range(min(query, first - 1) + 1):
                if own & offers[key]:
                    held[query] |= offers[key]
    return found
