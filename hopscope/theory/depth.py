"""The exact minimum depth of plain retrieval, a schedule that attains it, and a proof that one layer fewer fails.

Musat (ICLR 2025), theorem 1, proves that at least ⌈log3 2D⌉ layers are needed. In the same model the exact numbers are
⌈log2(2D+1)⌉ with one head, for any mask and order; the same with many heads under a causal mask, unless the order of
the facts helps; and ⌈log3(4D+1)⌉ with many heads and no mask. Proofs are in docs/theory.md. Every answer here carries a
certificate, and `check` verifies it independently with sets of pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hopscope.core.settings import BadInput, check_choice
from hopscope.problem.paths import Path, place_of, role_name
from hopscope.problem.shapes import parse_order
from hopscope.theory.algorithms.doubling import doubling
from hopscope.theory.flow import MOST_HOPS, Chain, Held, reach, trace, without_spare

Mask = Literal["causal", "none"]
Heads = Literal["one", "many"]
MASKS: tuple[Mask, ...] = ("causal", "none")
HEADS: tuple[Heads, ...] = ("one", "many")

#: The longest chain whose schedule is pruned: trying to remove each path takes too long beyond.
PRUNED_UP_TO = 64


@dataclass(frozen=True)
class Certificate:
    """A proof that one layer fewer does not suffice.

    Attributes:
        kind: `reach`: the query does not hold the answer even if every position attends to all that it may attend to.
            `width`: a counting argument for one head; after t layers a position's interval spans at most 2^t steps.
        layers: one less than the minimum depth.
        query_reach: the last piece that the query can hold, before layer 0 and after each layer.
        needed: the piece that the query needs, 2D, which is beyond the last entry of `query_reach`.
        held: by role, the first and last piece that the position can hold after `layers`; for `width`, an upper bound
            on each side.
        widest: for `width`, the largest span of an interval in steps, before layer 0 and after each layer.
    """

    kind: Literal["reach", "width"]
    layers: int
    query_reach: tuple[int, ...]
    needed: int
    held: dict[str, tuple[int, int]]
    widest: tuple[int, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """As in JSON; `widest` only for the kind `width`."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Depth:
    """The result of `minimum_depth`.

    Attributes:
        hops: D.
        mask: `causal` or `none`.
        heads: `one` or `many`.
        order: of the facts, as given.
        min_layers: the minimum depth.
        paper_bound: ⌈log3 2D⌉, theorem 1.
        schedule: paths that attain `min_layers`.
        certificate: the proof that `min_layers − 1` do not suffice.
    """

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
        return asdict(self) | {"certificate": self.certificate.as_dict()}


def minimum_depth(hops: int, mask: Mask = "causal", heads: Heads = "one", order: str = "nearest_first") -> Depth:
    """The fewest layers after which the query can hold the answer.

    Args:
        hops: D, 1 to `MOST_HOPS`.
        mask: `causal` or `none`.
        heads: how many positions a position may attend to in a layer: `one` or `many`.
        order: as for tasks: `nearest_first`, `deepest_first`, a list such as `3,1,2`, or `shuffled`. Shuffled facts may
            come in any order, so the result is that of the worst order. `nearest_first` is a worst order, because
            pointer doubling needs no more layers in any other; so the schedule is the one for `nearest_first`.

    Raises:
        BadInput: an argument is out of range.
    """
    chain = chain_of(hops, mask, order)
    check_choice("heads", heads, HEADS)
    at_most = hops.bit_length() + 1  # ⌈log2(2 hops + 1)⌉, by pointer doubling
    if heads == "one" and mask == "none":
        proof = by_width(chain, at_most - 1)
    else:
        held = reach(chain, at_most - 1)
        fewer = next((n for n, layer in enumerate(held) if layer[0][1] == chain.last), None)
        if fewer is not None and heads == "many":
            paths = trace(chain, held[: fewer + 1])
            paths = without_spare(chain, paths) if hops <= PRUNED_UP_TO else paths
            proof = by_reach(chain, held[:fewer])
            return Depth(hops, mask, heads, order, fewer, paper_bound(hops), tuple(paths), proof)
        proof = by_reach(chain, held) if fewer is None else by_width(chain, at_most - 1)
    paths = doubling(hops, chain.order, chain.causal, "query")
    return Depth(hops, mask, heads, order, at_most, paper_bound(hops), tuple(paths), proof)


def chain_of(hops: int, mask: str, order: str) -> Chain:
    """The chain of these arguments; for shuffled facts, in a worst order. Raises BadInput if one is out of range."""
    if not 1 <= hops <= MOST_HOPS:
        raise BadInput(f"hops must be from 1 to {MOST_HOPS}; got {hops}")
    check_choice("mask", mask, MASKS)
    return Chain(hops, parse_order(order, hops) or tuple(range(1, hops + 1)), mask == "causal")


def paper_bound(hops: int) -> int:
    """The paper's lower bound on the number of layers, ⌈log3 2D⌉ (Musat, ICLR 2025, theorem 1)."""
    return next(t for t in range(hops + 1) if 3**t >= 2 * hops)


def by_reach(chain: Chain, held: Sequence[Held]) -> Certificate:
    """The certificate that many heads do not suffice, from what positions hold at best after each layer."""
    last = {role_name(place): interval for place, interval in enumerate(held[-1])}
    return Certificate("reach", len(held) - 1, tuple(layer[0][1] for layer in held), chain.last, last)


def by_width(chain: Chain, layers: int) -> Certificate:
    """The certificate that models with one head per layer cannot solve the chain in so many layers.

    A position that attends to one other can at most double the span of its interval, which is 1 at the start. The
    query's interval starts at the end of the chain, so a layer extends it by at most the span of one other interval: by
    1, 2, 4 …, to 2^t − 1 after t layers.
    """
    widest = tuple(2**t for t in range(layers + 1))
    extension = widest[-1] - 1
    bounds = [(max(0, low - extension), min(chain.last, high + extension)) for low, high in chain.start()]
    held = {role_name(place): interval for place, interval in enumerate(bounds)}
    query = tuple(min(chain.last, span - 1) for span in widest)
    return Certificate("width", layers, query, chain.last, held, widest)


# Independent verification ---------------------------------------------------------------------------------------------


def check(depth: Depth) -> list[str]:
    """The errors in a result, as sentences; empty if it is correct.

    Schedule and certificate are verified with sets of pieces (bits of an integer) in plain loops, without intervals.
    """
    chain = chain_of(depth.hops, depth.mask, depth.order)
    wrong = [*check_schedule(chain, depth), *check_certificate(chain, depth.certificate, depth.heads)]
    if depth.certificate.layers != depth.min_layers - 1:
        wrong.append("the certificate is about another depth")
    return wrong


def check_schedule(chain: Chain, depth: Depth) -> list[str]:
    """Errors in the schedule: each path must obey the mask and assumption 1, and together they must solve the chain."""
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
        wrong.append("the schedule is longer than the minimum depth")
    return wrong


def check_certificate(chain: Chain, certificate: Certificate, heads: Heads) -> list[str]:
    """The errors in the certificate of a lower bound on the depth; empty if it is valid."""
    wrong = []
    if certificate.needed != chain.last or certificate.query_reach[-1] >= chain.last:
        wrong.append("the certificate does not exclude one layer fewer")
    if certificate.kind == "width":
        spans = [2**t for t in range(certificate.layers + 1)]
        # After t layers the query reaches at most as far as all earlier spans add up to.
        ends = [min(chain.last, sum(spans[:t])) for t in range(certificate.layers + 1)]
        if heads != "one" or certificate.widest != tuple(spans) or list(certificate.query_reach) != ends:
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
    """The pieces that each position holds before layer 0; bit i stands for e_i."""
    return [1] + [0b11 << (place - 1) for place in range(1, chain.last + 1)]


def everyone_to_everyone(chain: Chain, layers: int) -> list[list[int]]:
    """The pieces of each position, before layer 0 and after each, if every position attends to all that it may."""
    held = [pieces_at_start(chain)]
    for _ in range(layers):
        before, after = held[-1], list(held[-1])
        for query, own in enumerate(before):
            for key, other in enumerate(before):
                if own & other and not (chain.causal and chain.times[key] > chain.times[query]):
                    after[query] |= other
        held.append(after)
    return held
