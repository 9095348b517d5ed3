"""The problem as a picture: facts, queries and the hops of one query (after Musat, ICLR 2025, figures 1 and 3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from hopscope.drawing.style import GREY, QUERY_INK, canvas, colour, ink_on, styled
from hopscope.problem.oracle import Problem

INCHES_PER_TOKEN = 0.46
WIDEST = 27.0  # boxes in a row; longer sequences continue in the next row
BETWEEN_FACTS, BETWEEN_GROUPS = 0.3, 1.0  # gaps, in boxes as all lengths below
HALF = 0.4  # half of a box
BELOW = 1.5  # height of brackets and names of steps under a row

Group = tuple[str, list[tuple[int | None, tuple[str, ...]]]]


@dataclass(frozen=True)
class Token:
    """A symbol at its place: `fact` is the index of its fact, None for a query; `group` its step, or `queries`."""

    symbol: str
    x: float
    row: int
    fact: int | None
    group: str


@dataclass(frozen=True)
class Link:
    """A link from where a symbol is known to where a fact looks it up; `chain` is the query that it belongs to."""

    start: Token
    end: Token
    chain: str

    @property
    def rise(self) -> float:
        """The height of an arc between two tokens of one row."""
        return 0.35 + min(1.5, 0.11 * abs(self.end.x - self.start.x)) if self.start.row == self.end.row else 0.0


@styled
def problem_diagram(problem: Problem, query: str | None = None, *, ax: Axes | None = None) -> Figure:
    """Symbols in their order of presentation, one colour per hop, grey for those of no chain.

    Brackets below join the symbols of a fact (a shared position, in the paper's figure 3). Arrows join a symbol's
    occurrences along the chain of one query, faint lines along those of the others. Long sequences fill several rows.

    Args:
        problem: any problem; its facts may have several premises.
        query: the query whose hops are shown, by default the first.
        ax: axes to draw on; by default those of a new figure of the needed size.
    """
    query = query or problem.queries[0]
    tokens = place(problem)
    arcs = [link for asked in problem.queries for link in links(problem, tokens, asked)]
    floors = stack(tokens, arcs)
    width, top = max(token.x for token in tokens) + 2, max(1.0, row_rise(arcs, 0)) + 0.6
    height = top + BELOW - floors[-1]
    figure, ax = canvas(ax, width * INCHES_PER_TOKEN, height * INCHES_PER_TOKEN + 0.4)
    shown = {query, *problem.successors(query)}
    tint_of = hop_colours(problem)
    draw_boxes(ax, tokens, floors, shown, tint_of)
    draw_brackets(ax, problem, tokens, floors, shown, tint_of)
    draw_links(ax, arcs, floors, query, tint_of)
    draw_groups(ax, tokens, floors)
    ax.set_title(
        f"{len(problem.queries)} queries, {len(problem.facts)} facts; the hops of {query}:  {hops_of(problem, query)}"
    )
    ax.set_axis_off()
    ax.set(xlim=(-1, width - 1), ylim=(floors[-1] - BELOW, top), aspect="equal")
    return figure


def hops_of(problem: Problem, query: str) -> str:
    """The hops of a query in one line; symbols of one round are in braces."""
    names = {symbol: n for n, symbol in enumerate(problem.successors(query))}
    rounds = [sorted(new, key=names.__getitem__) for new in problem.hops(query)]
    return " → ".join([query, *(new[0] if len(new) == 1 else "{" + ", ".join(new) + "}" for new in rounds)])


def grouped(problem: Problem) -> Iterator[Group]:
    """Runs of facts of one step, then the queries: each with its name and its members' symbols."""
    for step, facts in itertools.groupby(enumerate(problem.facts), lambda item: item[1].step):
        yield f"step {step}", [(index, (*fact.premises, fact.conclusion)) for index, fact in facts]
    yield "queries", [(None, (query,)) for query in problem.queries]


def place(problem: Problem, widest: float = WIDEST) -> list[Token]:
    """Tokens from left to right, with gaps between facts and wider ones between groups.

    A group that does not fit after the previous one starts a row; one that fits no row is split between facts.
    """
    tokens: list[Token] = []
    x, row = 0.0, 0
    for name, members in grouped(problem):
        length = sum(len(symbols) + BETWEEN_FACTS for _, symbols in members) - BETWEEN_FACTS
        x += BETWEEN_GROUPS if x else 0
        if x and x + length > widest:
            x, row = 0.0, row + 1
        for n, (fact, symbols) in enumerate(members):
            x += BETWEEN_FACTS if n else 0
            if x and x + len(symbols) > widest:
                x, row = 0.0, row + 1
            tokens += [Token(symbol, x + i, row, fact, name) for i, symbol in enumerate(symbols)]
            x += len(symbols)
    return tokens


def links(problem: Problem, tokens: Iterable[Token], query: str) -> list[Link]:
    """Links along a query's chain, from where a symbol is known (query, conclusion) to where it is a premise.

    There is one link per premise of every fact of the chain, so D for a plain chain of D hops.
    """
    reached = {query, *problem.successors(query)}
    used = {n for n, fact in enumerate(problem.facts) if reached.issuperset((*fact.premises, fact.conclusion))}
    known: dict[str, Token] = {}
    for token in tokens:
        if (token.fact is None and token.symbol == query) or (
            token.fact in used and token.symbol == problem.facts[token.fact].conclusion
        ):
            known.setdefault(token.symbol, token)
    return [
        Link(known[token.symbol], token, query)
        for token in tokens
        if token.fact in used and token.symbol in problem.facts[token.fact].premises
    ]


def hop_colours(problem: Problem) -> dict[str, str]:
    """Each symbol's colour, as in circuits and curves: that of its hop, dark for a query; other symbols have none."""
    colours: dict[str, str] = dict.fromkeys(problem.queries, QUERY_INK)
    for query in problem.queries:
        for hop, new in enumerate(problem.hops(query)):
            colours |= dict.fromkeys(new, colour(hop))
    return colours


def row_rise(arcs: Iterable[Link], row: int) -> float:
    """The height of the highest arc above a row's boxes."""
    return max((link.rise for link in arcs if link.start.row == row), default=0.0)


def stack(tokens: list[Token], arcs: list[Link]) -> list[float]:
    """The height of each row: 0 for the first, the others below it, with room for their arcs."""
    floors = [0.0]
    for row in range(1, tokens[-1].row + 1):
        floors.append(floors[-1] - BELOW - max(0.6, row_rise(arcs, row)) - HALF)
    return floors


def draw_boxes(ax: Axes, tokens: list[Token], floors: list[float], shown: set[str], tint_of: dict[str, str]) -> None:
    """Draw a box for each symbol, strong if it belongs to the shown chain."""
    for token in tokens:
        tint, strong = tint_of.get(token.symbol, GREY), token.symbol in shown
        box = FancyBboxPatch(
            (token.x - HALF, floors[token.row] - HALF),
            2 * HALF,
            2 * HALF,
            boxstyle="round,pad=0,rounding_size=0.15",
            facecolor=tint if strong else blend(tint, 0.2),
            edgecolor="none",
            zorder=2,
        )
        ax.add_patch(box)
        ax.text(
            token.x,
            floors[token.row] - 0.02,
            token.symbol,
            ha="center",
            va="center",
            color=ink_on(tint) if strong else "black",
            fontsize=9.0 * min(1.0, 4 / len(token.symbol)),
            zorder=3,
        )


def draw_brackets(
    ax: Axes, problem: Problem, tokens: list[Token], floors: list[float], shown: set[str], tint_of: dict[str, str]
) -> None:
    """Draw a bracket under each fact, from its first to its last symbol."""
    facts = itertools.groupby((t for t in tokens if t.fact is not None), lambda token: token.fact)
    for (_, members), fact in zip(facts, problem.facts, strict=True):
        places = list(members)
        strong = shown.issuperset((*fact.premises, fact.conclusion))
        left, right, floor = places[0].x, places[-1].x, floors[places[0].row]
        tint = tint_of.get(fact.conclusion, GREY)
        ax.plot(
            [left, left, right, right],
            [floor - 0.5, floor - 0.68, floor - 0.68, floor - 0.5],
            color=tint if strong else blend(tint, 0.4),
            lw=1.8 if strong else 0.9,
            zorder=2,
        )


def draw_links(ax: Axes, arcs: list[Link], floors: list[float], query: str, tint_of: dict[str, str]) -> None:
    """Draw the links of the shown query as arrows, those of other queries as faint lines beneath."""
    for link in arcs:
        tint, strong = tint_of[link.start.symbol], link.chain == query
        arc = FancyArrowPatch(
            path=curve(link, floors),
            arrowstyle="-|>" if strong else "-",
            mutation_scale=9,
            color=tint if strong else blend(tint, 0.3),
            lw=1.4 if strong else 0.7,
            zorder=1.5 if strong else 1,
            fill=strong,
        )
        arc.set_gid(f"hop of {link.chain}")
        ax.add_patch(arc)


def curve(link: Link, floors: list[float]) -> Path:
    """An arc above one row; between rows an S-curve from one to the other."""
    start, end = link.start, link.end
    if start.row == end.row:
        low = floors[start.row] + HALF + 0.06
        high = low + link.rise / 0.75  # a cubic curve rises to three quarters of its control points
        first, last, bend_first, bend_last = low, low, high, high
    else:
        upwards = start.row > end.row
        above, under = HALF + 0.06, -0.78  # from the top of a box; from below its bracket
        first = floors[start.row] + (above if upwards else under)
        last = floors[end.row] + (under if upwards else above)
        bend_first = bend_last = (first + last) / 2
    corners = [(start.x, first), (start.x, bend_first), (end.x, bend_last), (end.x, last)]
    return Path(corners, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


def draw_groups(ax: Axes, tokens: list[Token], floors: list[float]) -> None:
    """Draw the name of each group under it, in every row that it fills: `step 1`, …, `queries`."""
    for (row, name), members in itertools.groupby(tokens, lambda token: (token.row, token.group)):
        xs = [token.x for token in members]
        ax.text(
            (xs[0] + xs[-1]) / 2,
            floors[row] - 0.82,
            name,
            ha="center",
            va="top",
            color=GREY,
            zorder=3,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )


def blend(tint: str, strength: float) -> tuple[float, float, float]:
    """A colour mixed with white, opaque so that lines beneath do not show; strength 0–1."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(tint))
    return red, green, blue
