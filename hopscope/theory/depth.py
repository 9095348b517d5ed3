"""The exact minimum depth of plain retrieval, a schedule that attains it, and why one layer fewer cannot.

Musat (ICLR 2025), theorem 1, proves that no fewer than ⌈log3 2D⌉ layers suffice. Within the same model the exact
numbers are ⌈log2(2D+1)⌉ with one head, whatever the mask and the order; the same with many heads under a causal mask,
unless the facts are presented in an order that helps; and ⌈log3(4D+1)⌉ with many heads and no mask. The proofs are in
docs/theory.md; here every answer brings its own, and `check` re-checks it with nothing but sets of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path, place_of, role_name
from hopscope.problem.shapes import parse_order
from hopscope.theory.algorithms.doubling import doubling
from hopscope.theory.flow import MOST_HOPS, Chain, Held, reach, trace, without_spare

Mask = Literal["causal", "none"]
Heads = Literal["one", "many"]
MASKS: tuple[Mask, ...] = ("causal", "none")
HEADS: tuple[Heads, ...] = ("one", "many")

#: For longer chains, trying to leave out each path of a schedule takes too long.
PRUNED_UP_TO = 64


@dataclass(frozen=True)
class Certificate:
    """Why one layer fewer cannot.

    Attributes:
        kind: `reach`: everyone attends to everyone that he may, and still the query does not get there. `width`: the
            same for one head, by counting: what a position holds spans at most 2^t steps of the chain after t layers.
        layers: one fewer than the least depth.
        query_reach: the last piece that the query can hold, before any layer and after each of them.
        needed: the piece that it needs, 2D; it is beyond the last of these.
        held: first and last piece that each position can hold after `layers`; of kind `width`, on either side at best.
        widest: of kind `width`, the most steps that an interval spans, before any layer and after each.
    """

    kind: Literal["reach", "width"]
    layers: int
    query_reach: tuple[int, ...]
    needed: int
    held: dict[str, tuple[int, int]]
    widest: tuple[int, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """As in JSON; without what its kind lacks."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Depth:
    """An answer of `minimum_depth`: `{hops, mask, heads, order, min_layers, paper_bound, schedule, certificate}`."""

    hops: int
    mask: Mask
    heads: Heads
    order: str
    min_layers: int
    paper_bound: int
    schedule: tuple[Path, ...]
    certificate: Certificate

    def as_dict(self) -> dict[str, Any]:
        """As in JSON (docs/contracts.md)."""
        own = {name: getattr(self, name) for name in ("hops", "mask", "heads", "order", "min_layers", "paper_bound")}
        return own | {
            "schedule": [path.as_dict() for path in self.schedule],
            "certificate": self.certificate.as_dict(),
        }


def minimum_depth(hops: int, mask: Mask = "causal", heads: Heads = "one", order: str = "nearest_first") -> Depth:
    """The fewest layers after which the query can hold the answer.

    Args:
        hops: D.
        mask: `causal`, or `none`.
        heads: `one` position attended to per position and layer, or `many`.
        order: as for tasks: `nearest_first`, `deepest_first`, a list such as `3,1,2`, or `shuffled`. Shuffled facts may
            come in any order, so the answer is that of the worst one. No order is worse than a monotone one, for with
            pointer doubling any order gets by with as many layers; so the schedule is that for `nearest_first`.
    """
    chain = chain_of(hops, mask, order)
    check_heads(heads)
    at_most = hops.bit_length() + 1  # ⌈log2(2 hops + 1)⌉, by pointer doubling
    if heads == "one" and mask == "none":
        proof = by_width(chain, at_most - 1)
    else:
        held = reach(chain, at_most - 1)
        sooner = next((n for n, layer in enumerate(held) if layer[0][1] == chain.last), None)
        if sooner is not None and heads == "many":
            paths = trace(chain, held[: sooner + 1])
            paths = without_spare(chain, paths) if hops <= PRUNED_UP_TO else paths
            proof = by_reach(chain, held[:sooner])
            return Depth(hops, mask, heads, order, sooner, paper_bound(hops), tuple(paths), proof)
        proof = by_reach(chain, held) if sooner is None else by_width(chain, at_most - 1)
    paths = doubling(hops, chain.order, chain.causal, "query")
    return Depth(hops, mask, heads, order, at_most, paper_bound(hops), tuple(paths), proof)


def chain_of(hops: int, mask: str, order: str) -> Chain:
    """The chain that is meant; for shuffled facts that of a worst order. Raises BadInput."""
    if not 1 <= hops <= MOST_HOPS:
        raise BadInput(f"hops must be from 1 to {MOST_HOPS}; got {hops}")
    if mask not in MASKS:
        raise BadInput(f"mask must be one of {', '.join(MASKS)}; got {mask!r}")
    return Chain(hops, parse_order(order, hops) or tuple(range(1, hops + 1)), mask == "causal")


def check_heads(heads: str) -> None:
    if heads not in HEADS:
        raise BadInput(f"heads must be one of {', '.join(HEADS)}; got {heads!r}")


def paper_bound(hops: int) -> int:
    """⌈log3 2D⌉, theorem 1."""
    return next(t for t in range(hops + 1) if 3**t >= 2 * hops)


def by_reach(chain: Chain, held: Sequence[Held]) -> Certificate:
    """The certificate that all heads together do not get there."""
    last = {role_name(place): interval for place, interval in enumerate(held[-1])}
    return Certificate("reach", len(held) - 1, tuple(layer[0][1] for layer in held), chain.last, last)


def by_width(chain: Chain, layers: int) -> Certificate:
    """The certificate that one head does not get there.

    Attending to one position, an interval can at most double its span, which is 1 at the start. The query's interval
    begins at the chain's end, so it can at most be extended by the span of another: by 1, 2, 4 …, to 2^t - 1.
    """
    widest = tuple(2**t for t in range(layers + 1))
    more = widest[-1] - 1
    bounds = [(max(0, low - more), min(chain.last, high + more)) for low, high in chain.start()]
    held = {role_name(place): interval for place, interval in enumerate(bounds)}
    query = tuple(min(chain.last, span - 1) for span in widest)
    return Certificate("width", layers, query, chain.last, held, widest)


# A second opinion -----------------------------------------------------------------------------------------------------


def check(depth: Depth) -> list[str]:
    """What is wrong with an answer: nothing, if it is right.

    Everything is verified anew from sets of pieces (bits of a number), in plain loops, without intervals.
    """
    chain = chain_of(depth.hops, depth.mask, depth.order)
    return [*check_schedule(chain, depth), *check_certificate(chain, depth.certificate, depth.heads)] + (
        [] if depth.certificate.layers == depth.min_layers - 1 else ["the certificate is about another depth"]
    )


def check_schedule(chain: Chain, depth: Depth) -> list[str]:
    """Complaints about paths: each must keep mask and assumption 1, and together they must bring the answer."""
    wrong = []
    held = pieces_at_start(chain)
    for layer in range(depth.min_layers):
        before = list(held)
        paths = [path for path in depth.schedule if path.layer == layer]
        for path in paths:
            query, key = place_of(path.query), place_of(path.key)
            if not before[query] & before[key]:
                wrong.append(f"{path} attends without a shared piece")
            if chain.causal and chain.times[key] > chain.times[query]:
                wrong.append(f"{path} attends against the mask")
            held[query] |= before[key]
        if depth.heads == "one" and len({path.query for path in paths}) < len(paths):
            wrong.append(f"in layer {layer} a position attends to more than one")
    if not held[0] >> chain.last & 1:
        wrong.append("the query does not get the last piece")
    if any(path.layer >= depth.min_layers for path in depth.schedule):
        wrong.append("the schedule is longer than the least depth")
    return wrong


def check_certificate(chain: Chain, certificate: Certificate, heads: Heads) -> list[str]:
    """Complaints about the lower bound."""
    wrong = []
    if certificate.needed != chain.last or certificate.query_reach[-1] >= chain.last:
        wrong.append("the certificate does not exclude one layer fewer")
    if certificate.kind == "width":
        grown = [1]
        for _ in range(certificate.layers):
            grown.append(2 * grown[-1])
        # The query's reach after t layers: at most what all spans before add up to.
        ends = [min(chain.last, sum(grown[:t])) for t in range(certificate.layers + 1)]
        if heads != "one" or certificate.widest != tuple(grown) or list(certificate.query_reach) != ends:
            wrong.append("the spans are wrong")
        return wrong
    layers = everyone_to_everyone(chain, certificate.layers)
    if [held[0].bit_length() - 1 for held in layers] != list(certificate.query_reach):
        wrong.append("the query's reach is wrong")
    for place, held in enumerate(layers[-1]):
        low, high = certificate.held[role_name(place)]
        if held != sum(1 << piece for piece in range(low, high + 1)):
            wrong.append(f"the reach of {role_name(place)} is wrong")
    return wrong


def pieces_at_start(chain: Chain) -> list[int]:
    """What each position holds, bit i for e_i."""
    return [1] + [0b11 << (place - 1) for place in range(1, chain.last + 1)]


def everyone_to_everyone(chain: Chain, layers: int) -> list[list[int]]:
    """What each position holds, before any layer and after each, if all attend to all that they may."""
    held = [pieces_at_start(chain)]
    for _ in range(layers):
        before, after = held[-1], list(held[-1])
        for query, own in enumerate(before):
            for key, other in enumerate(before):
                if own & other and not (chain.causal and chain.times[key] > chain.times[query]):
                    after[query] |= other
        held.append(after)
    return held
