"""Information flow where facts have several premises: sets of pieces instead of intervals, many heads.

The positions are the query and all tokens of one chain's facts. The pieces are the variables, and for each fact its
position, written p3 for that of step 3. A token starts with its variable and the position of its fact.

In a plain chain every piece belongs to one fact or joins two, so that to share it is to know whom one means, which is
what assumption 1 is about. Here a premise is shared by all facts that combine it with other chains' values of the other
premises (`conditional_retrieval` lists them); who shares only pieces from one premise's side cannot tell them apart.
So what is shared must single the fact out: something that depends on the combination (the fact's own position, its
conclusion, or what follows from it), or from each premise's side a piece that the other sides lack.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from hopscope.core.settings import BadInput
from hopscope.problem.paths import Path
from hopscope.problem.shapes import Step, parse_order, parse_shape
from hopscope.theory.depth import MASKS, Mask, paper_bound

Pieces = frozenset[str]
#: What every token holds, by its number.
Holding = tuple[Pieces, ...]

#: Of shuffled facts the worst order is sought among all, up to so many steps.
MOST_SHUFFLED = 6


@dataclass(frozen=True)
class Token:
    """A position: its role, what it holds before any layer, and the step of its fact (None for the query)."""

    role: str
    start: Pieces
    step: int | None


@dataclass(frozen=True)
class Sheet:
    """One chain of a shape.

    Attributes:
        steps: the shape.
        order: the steps, counted from 1, as they are presented.
        causal: whether a position may attend to earlier positions and itself only.
    """

    steps: tuple[Step, ...]
    order: tuple[int, ...]
    causal: bool = True

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """The query, then fact by fact its premises and its conclusion; roles as `FactSheet.role_names` has them."""
        tokens = [Token("query", frozenset(self.steps[0].premises[:1]), None)]
        for k, step in enumerate(self.steps, 1):
            for n, premise in enumerate(step.premises, 1):
                role = f"key[{k},{n}]" if len(step.premises) > 1 else f"key[{k}]"
                tokens.append(Token(role, frozenset({premise, position(k)}), k))
            tokens.append(Token(f"value[{k}]", frozenset({step.conclusion, position(k)}), k))
        return tuple(tokens)

    @property
    def answers(self) -> Pieces:
        """What the query wants: all conclusions."""
        return frozenset(step.conclusion for step in self.steps)

    @cached_property
    def upstream(self) -> dict[str, Pieces]:
        """For each variable: itself, and all pieces on the ways that lead to it."""
        found = {self.steps[0].premises[0]: frozenset(self.steps[0].premises[:1])}
        for k, step in enumerate(self.steps, 1):
            sides = (found[premise] for premise in step.premises)
            found[step.conclusion] = frozenset({step.conclusion, position(k)}).union(*sides)
        return found

    @cached_property
    def depends(self) -> dict[str, Pieces]:
        """For each variable: itself, the position of the fact that concludes it, and all pieces that follow from it."""
        found = {}
        for variable in self.upstream:
            after = {other for other, before in self.upstream.items() if variable in before}
            found[variable] = frozenset(
                after | {position(k) for k, step in enumerate(self.steps, 1) if step.conclusion in after}
            )
        return found

    def pins(self, pieces: Pieces, variable: str) -> bool:
        """Whether pieces single out one value of a variable among those that combine chains."""
        if pieces & self.depends[variable]:
            return True
        premises = next((step.premises for step in self.steps if step.conclusion == variable), ())
        for premise in premises:
            others = frozenset().union(*(self.upstream[other] for other in premises if other != premise))
            if not self.pins(pieces - (others - {premise}), premise):
                return False
        return bool(premises)

    @cached_property
    def times(self) -> tuple[int, ...]:
        """When each token is presented."""
        ranks = {k: n for n, k in enumerate(self.order)}
        return tuple(
            len(self.tokens) ** 2 if token.step is None else ranks[token.step] * len(self.tokens) + n
            for n, token in enumerate(self.tokens)
        )

    def shared(self, query: int, key: int, held: Holding) -> Pieces | None:
        """Pieces by which one token finds another, none of them spare, given what all hold; None if it cannot."""
        if query == key or (self.causal and self.times[key] > self.times[query]):
            return None
        step = self.tokens[key].step
        meant = self.steps[0].premises[0] if step is None else self.steps[step - 1].conclusion
        common = held[query] & held[key]
        if not self.pins(common, meant):
            return None
        for piece in sorted(common):
            if self.pins(common - {piece}, meant):
                common -= {piece}
        return common


def position(step: int) -> str:
    """The name of the piece that a fact's tokens share: its position."""
    return f"p{step}"


def reach(sheet: Sheet) -> list[Holding]:
    """What every token holds at best, before any layer and after each, until the query holds all conclusions.

    Raises BadInput if it never does.
    """
    held = [tuple(token.start for token in sheet.tokens)]
    while not sheet.answers <= held[-1][0]:
        before = held[-1]
        finds = [[k for k in range(len(before)) if sheet.shared(q, k, before) is not None] for q in range(len(before))]
        after = tuple(own.union(*(before[k] for k in found)) for own, found in zip(before, finds, strict=True))
        if after == before:
            raise BadInput("no number of layers is enough for this shape in this order")
        held.append(after)
    return held


def trace(sheet: Sheet, held: Sequence[Holding]) -> list[Path]:
    """A schedule by which the query gets all conclusions, back from the last layer, without spare paths."""
    paths: list[Path] = []
    wanted: dict[int, Pieces] = {0: sheet.answers}
    for layer in reversed(range(len(held) - 1)):
        earlier: dict[int, Pieces] = {}
        for query, want in wanted.items():
            parts = split(sheet, held[layer], query, want)
            roles = (sheet.tokens[key].role for key in sorted(parts) if key != query)
            paths += [Path(layer, head, sheet.tokens[query].role, role) for head, role in enumerate(roles)]
            for key, part in parts.items():
                earlier[key] = earlier.get(key, frozenset()) | part
        wanted = earlier
    return renamed(without_spare(sheet, paths))


def split(sheet: Sheet, before: Holding, query: int, want: Pieces) -> dict[int, Pieces]:
    """Who must hold what a layer earlier, so that a token can hold `want`: whoever has most of what is missing."""
    parts = {query: want & before[query]}
    missing = want - before[query]
    while missing:
        able = [k for k in range(len(before)) if sheet.shared(query, k, before) is not None]
        key = max(able, key=lambda k: (len(missing & before[k]), len(sheet.tokens[k].start & want), -k))
        found = sheet.shared(query, key, before)
        assert found is not None
        parts[key] = (missing & before[key]) | found
        parts[query] |= found
        missing -= before[key]
    return parts


def simulate(sheet: Sheet, paths: Iterable[Path]) -> Pieces:
    """What the query holds in the end. Paths whose positions do not find each other move nothing."""
    numbers = {token.role: n for n, token in enumerate(sheet.tokens)}
    held: Holding = tuple(token.start for token in sheet.tokens)
    for _, group in itertools.groupby(sorted(paths), key=lambda path: path.layer):
        after = list(held)
        for path in group:
            query, key = numbers[path.query], numbers[path.key]
            if sheet.shared(query, key, held) is not None:
                after[query] |= held[key]
        held = tuple(after)
    return held[0]


def without_spare(sheet: Sheet, paths: Sequence[Path]) -> list[Path]:
    """What remains when paths that the answers do not need are left out, one after the other, late layers first."""
    kept = list(paths)
    for path in sorted(paths, reverse=True):
        fewer = [other for other in kept if other != path]
        if sheet.answers <= simulate(sheet, fewer):
            kept = fewer
    return kept


def renamed(paths: Iterable[Path]) -> list[Path]:
    """The same with heads numbered from 0 for each position and layer."""
    groups = itertools.groupby(sorted(paths, key=lambda p: (p.layer, p.query, p.head)), lambda p: (p.layer, p.query))
    return sorted(Path(p.layer, n, p.query, p.key) for _, group in groups for n, p in enumerate(group))


@dataclass(frozen=True)
class ShapeDepth:
    """An answer of `minimum_depth`, in the words of `hopscope.theory.depth.Depth`, with the shape.

    `hops` is the number of steps; `paper_bound` is None where facts have several premises, for the paper's proof is
    about chains. The certificate says what the query holds at best before any layer and after each one up to one fewer
    than needed, and what it still misses then.
    """

    shape: str
    hops: int
    mask: Mask
    heads: str
    order: str
    min_layers: int
    paper_bound: int | None
    schedule: tuple[Path, ...]
    certificate: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """As in JSON."""
        return asdict(self)


def minimum_depth(shape: str, mask: Mask = "causal", order: str = "nearest_first") -> ShapeDepth:
    """The fewest layers, with any number of heads, after which the query can hold every conclusion of a shape.

    Args:
        shape: such as `a>x a>y xy>z`.
        mask: `causal`, or `none`.
        order: as for tasks; of shuffled facts, that of a worst order.
    """
    if mask not in MASKS:
        raise BadInput(f"mask must be one of {', '.join(MASKS)}; got {mask!r}")
    steps = parse_shape(shape)
    tried = orders(steps, mask, order)
    sheet, held = max(
        ((sheet, reach(sheet)) for sheet in (Sheet(steps, one, mask == "causal") for one in tried)),
        key=lambda answer: len(answer[1]),
    )
    certificate = {
        "kind": "sets",
        "layers": len(held) - 2,
        "query_holds": [sorted(layer[0]) for layer in held[:-1]],
        "needed": sorted(sheet.answers),
        "missing": sorted(sheet.answers - held[-2][0]),
    }
    schedule = tuple(trace(sheet, held))
    return ShapeDepth(shape, len(steps), mask, "many", order, len(held) - 1, bound(steps), schedule, certificate)


def orders(steps: tuple[Step, ...], mask: Mask, order: str) -> list[tuple[int, ...]]:
    """The orders of presentation that are meant: one, or for shuffled facts under a mask all of them."""
    numbers = tuple(range(1, len(steps) + 1))
    asked = parse_order(order, len(steps))
    if asked is not None or mask == "none":
        return [asked or numbers]
    if len(steps) > MOST_SHUFFLED:
        raise BadInput(f"the worst order is sought for up to {MOST_SHUFFLED} steps; give an order for {len(steps)}")
    return list(itertools.permutations(numbers))


def bound(steps: tuple[Step, ...]) -> int | None:
    """The paper's bound for the longest chain in a shape of single premises."""
    if any(len(step.premises) > 1 for step in steps):
        return None
    hops = {steps[0].premises[0]: 0}
    for step in steps:
        hops[step.conclusion] = hops[step.premises[0]] + 1
    return paper_bound(max(hops.values()))
