"""Information flow for facts with several premises: sets of pieces instead of intervals, with many heads.

The positions are the query and all tokens of one chain's facts. The pieces are the variables and the positions of facts
(p3 is the position of step 3). A token starts with its variable and the position of its fact.

In a plain chain a piece belongs to one fact or joins two, so a shared piece identifies the position to attend to, as
assumption 1 requires. With several premises one premise stands in many facts, which combine it with the other chains'
values of the other premises (`conditional_retrieval` lists them). Pieces from the side of one premise do not
distinguish these facts. So the shared pieces must identify the fact: either one of them depends on the combination (the
fact's own position, its conclusion, or a consequence of it), or each premise's side contributes a piece that the other
sides do not have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from hopscope.core.settings import BadInput, check_choice
from hopscope.problem.paths import Path
from hopscope.problem.shapes import Step, parse_order, parse_shape
from hopscope.theory.depth import MASKS, Mask, paper_bound
from hopscope.theory.flow import pruned

Pieces = frozenset[str]
#: What every token holds, by its index.
Holding = tuple[Pieces, ...]

#: The most steps for which all orders of shuffled facts are searched for the worst.
MOST_SHUFFLED = 6


@dataclass(frozen=True)
class Token:
    """A position: its role, what it holds before layer 0, and the step of its fact (None for the query)."""

    role: str
    start: Pieces
    step: int | None


@dataclass(frozen=True)
class Sheet:
    """One chain of a shape.

    Attributes:
        steps: of the shape.
        order: the steps, counted from 1, in the order of presentation.
        causal: whether a position may only attend to itself and to earlier positions.
    """

    steps: tuple[Step, ...]
    order: tuple[int, ...]
    causal: bool = True

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """The query, then the premises and the conclusion of each fact, with the roles of `FactSheet.role_names`."""
        tokens = [Token("query", frozenset(self.steps[0].premises[:1]), None)]
        for k, step in enumerate(self.steps, 1):
            for n, premise in enumerate(step.premises, 1):
                role = f"key[{k},{n}]" if len(step.premises) > 1 else f"key[{k}]"
                tokens.append(Token(role, frozenset({premise, position(k)}), k))
            tokens.append(Token(f"value[{k}]", frozenset({step.conclusion, position(k)}), k))
        return tuple(tokens)

    @property
    def answers(self) -> Pieces:
        """What the query must hold in the end: all conclusions."""
        return frozenset(step.conclusion for step in self.steps)

    @cached_property
    def upstream(self) -> dict[str, Pieces]:
        """For each variable: itself, and all pieces from which it is derived."""
        sources = {self.steps[0].premises[0]: frozenset(self.steps[0].premises[:1])}
        for k, step in enumerate(self.steps, 1):
            sides = (sources[premise] for premise in step.premises)
            sources[step.conclusion] = frozenset({step.conclusion, position(k)}).union(*sides)
        return sources

    @cached_property
    def depends(self) -> dict[str, Pieces]:
        """For each variable: itself, the position of the fact that concludes it, and all pieces derived from it."""
        derived = {}
        for variable in self.upstream:
            after = {other for other, before in self.upstream.items() if variable in before}
            derived[variable] = frozenset(
                after | {position(k) for k, step in enumerate(self.steps, 1) if step.conclusion in after}
            )
        return derived

    def pins(self, pieces: Pieces, variable: str) -> bool:
        """Whether pieces identify one value of a variable among those that combine the premises of several chains."""
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
        """A number for each token that grows in the order of presentation."""
        ranks = {k: n for n, k in enumerate(self.order)}
        return tuple(
            len(self.tokens) ** 2 if token.step is None else ranks[token.step] * len(self.tokens) + n
            for n, token in enumerate(self.tokens)
        )

    def shared(self, query: int, key: int, held: Holding) -> Pieces | None:
        """A minimal set of shared pieces by which the token `query` identifies `key`; None if it cannot, or is masked.

        `held` says what all tokens hold.
        """
        if query == key or (self.causal and self.times[key] > self.times[query]):
            return None
        step = self.tokens[key].step
        variable = self.steps[0].premises[0] if step is None else self.steps[step - 1].conclusion
        common = held[query] & held[key]
        if not self.pins(common, variable):
            return None
        for piece in sorted(common):
            if self.pins(common - {piece}, variable):
                common -= {piece}
        return common


def position(step: int) -> str:
    """The name of the piece that the tokens of one fact share: the fact's position."""
    return f"p{step}"


def reach(sheet: Sheet) -> list[Holding]:
    """The most that every token can hold, before layer 0 and after each, until the query holds all conclusions.

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
    """A schedule that brings the query all conclusions, traced back from the last layer, without superfluous paths."""
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
    return renamed(pruned(paths, lambda fewer: sheet.answers <= simulate(sheet, fewer)))


def split(sheet: Sheet, before: Holding, query: int, want: Pieces) -> dict[int, Pieces]:
    """What tokens must hold one layer earlier so that `query` can hold `want`.

    It attends to the token that holds most of the missing pieces, until none is missing.
    """
    parts = {query: want & before[query]}
    missing = want - before[query]
    while missing:
        able = [k for k in range(len(before)) if sheet.shared(query, k, before) is not None]
        key = max(able, key=lambda k: (len(missing & before[k]), len(sheet.tokens[k].start & want), -k))
        shared = sheet.shared(query, key, before)
        assert shared is not None
        parts[key] = (missing & before[key]) | shared
        parts[query] |= shared
        missing -= before[key]
    return parts


def simulate(sheet: Sheet, paths: Iterable[Path]) -> Pieces:
    """What the query holds in the end. A path whose query cannot identify its key moves nothing."""
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


def renamed(paths: Iterable[Path]) -> list[Path]:
    """The same paths, with heads numbered from 0 for each position and layer."""
    groups = itertools.groupby(sorted(paths, key=lambda p: (p.layer, p.query, p.head)), lambda p: (p.layer, p.query))
    return sorted(Path(p.layer, n, p.query, p.key) for _, group in groups for n, p in enumerate(group))


@dataclass(frozen=True)
class ShapeDepth:
    """The result of `minimum_depth`, with the fields of `hopscope.theory.depth.Depth` and the shape.

    `hops` is the number of steps. `paper_bound` is None if a fact has several premises, because the paper's proof is
    about chains. The certificate gives the most that the query can hold before layer 0 and after each layer but the
    last one, and the conclusions that are still missing then.
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
        shape: for example `a>x a>y xy>z`.
        mask: `causal` or `none`.
        order: as for tasks; shuffled facts are taken in a worst order.

    Raises:
        BadInput: shape, mask or order is invalid, no depth suffices, or shuffled facts have more than `MOST_SHUFFLED`
            steps under a mask.
    """
    check_choice("mask", mask, MASKS)
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
    """The orders of presentation to try: one, or all of them for shuffled facts under a mask."""
    numbers = tuple(range(1, len(steps) + 1))
    asked = parse_order(order, len(steps))
    if asked is not None or mask == "none":
        return [asked or numbers]
    if (n := len(steps)) > MOST_SHUFFLED:
        raise BadInput(f"all orders are tried of at most {MOST_SHUFFLED} shuffled steps; give an order for {n} steps")
    return list(itertools.permutations(numbers))


def bound(steps: tuple[Step, ...]) -> int | None:
    """The paper's bound for the longest chain of a shape; None if a step has several premises."""
    if any(len(step.premises) > 1 for step in steps):
        return None
    hops = {steps[0].premises[0]: 0}
    for step in steps:
        hops[step.conclusion] = hops[step.premises[0]] + 1
    return paper_bound(max(hops.values()))
