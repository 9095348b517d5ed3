"""The problem as a picture: facts, queries and the hops of one query (after Musat, ICLR 2025, figures 1 and 3)."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from hopscope.drawing.style import GREY, colour, picture, styled
from hopscope.problem import Problem

INCHES_PER_TOKEN = 0.46
WIDEST = 30.0  # inches
BETWEEN_FACTS, BETWEEN_STEPS = 0.3, 1.0  # in boxes


@dataclass(frozen=True)
class Token:
    """A symbol at its place: `fact` is the index of its fact, None for a query."""

    symbol: str
    x: float
    fact: int | None


@styled
def problem_diagram(problem: Problem, query: str | None = None) -> Figure:
    """Symbols in the order in which they are presented, one colour per chain, grey for those of no chain.

    Brackets below join what a fact joins (a shared position, in the paper's figure 3); arcs above join a symbol's
    occurrences along the chain of one query, by default the first; the other chains are faint.
    """
    query = query or problem.queries[0]
    tokens = place(problem)
    width = min(WIDEST, 1 + INCHES_PER_TOKEN * (tokens[-1].x + 1))
    figure = picture(width, 2.6)
    ax = figure.add_subplot()
    ax.set_axis_off()
    shown = {query, *problem.successors(query)}
    size = 9.0 * min(1.0, width / (1 + INCHES_PER_TOKEN * (tokens[-1].x + 1)))
    draw_boxes(ax, problem, tokens, shown, size)
    draw_brackets(ax, problem, tokens, shown)
    tallest = draw_arcs(ax, problem, tokens, shown)
    draw_steps(ax, problem, tokens, size)
    chain = " → ".join([query, *problem.successors(query)])
    ax.set_title(f"{len(problem.queries)} queries, {len(problem.facts)} facts; the hops of {query}:  {chain}")
    ax.set_xlim(-1, tokens[-1].x + 1)
    ax.set_ylim(-1.9, tallest + 0.3)
    return figure


def place(problem: Problem) -> list[Token]:
    """Symbols from left to right, with gaps between facts, wider ones between steps and before the queries."""
    tokens, x = [], 0.0
    for index, fact in enumerate(problem.facts):
        if index:
            x += BETWEEN_FACTS if fact.step == problem.facts[index - 1].step else BETWEEN_STEPS
        for symbol in (*fact.premises, fact.conclusion):
            tokens.append(Token(symbol, x, index))
            x += 1
    for index, symbol in enumerate(problem.queries):
        x += BETWEEN_FACTS if index else BETWEEN_STEPS
        tokens.append(Token(symbol, x, None))
        x += 1
    return tokens


def chain_colour(problem: Problem, symbol: str) -> str:
    """The colour of the first query, by name, from which the symbol follows; grey if there is none."""
    for index, query in enumerate(sorted(problem.queries)):
        if symbol == query or symbol in problem.successors(query):
            return colour(index)
    return GREY


def draw_boxes(ax: Axes, problem: Problem, tokens: list[Token], shown: set[str], size: float) -> None:
    for token in tokens:
        tint = chain_colour(problem, token.symbol)
        strong = token.symbol in shown
        box = FancyBboxPatch(
            (token.x - 0.42, -0.4),
            0.84,
            0.8,
            boxstyle="round,pad=0,rounding_size=0.15",
            facecolor=tint,
            edgecolor="none",
            alpha=0.95 if strong else 0.22,
        )
        ax.add_patch(box)
        ink = "white" if strong else "black"
        ax.text(token.x, -0.02, token.symbol, ha="center", va="center", color=ink, fontsize=size)


def draw_brackets(ax: Axes, problem: Problem, tokens: list[Token], shown: set[str]) -> None:
    """Under each fact a line from its first to its last symbol."""
    for index, fact in enumerate(problem.facts):
        places = [token.x for token in tokens if token.fact == index]
        strong = shown.issuperset((*fact.premises, fact.conclusion))
        xs = [places[0], places[0], places[-1], places[-1]]
        tint = chain_colour(problem, fact.conclusion)
        ax.plot(xs, [-0.5, -0.68, -0.68, -0.5], color=tint, lw=1.8 if strong else 0.9, alpha=1 if strong else 0.4)


def links(problem: Problem, tokens: list[Token], shown: set[str]) -> list[tuple[Token, Token]]:
    """Along the shown chain: from where a symbol is known (a query, a conclusion) to where it is a premise.

    One link per premise of every fact that the chain uses, so D for a plain chain of D hops.
    """
    found = []
    known = {t.symbol: t for t in tokens if t.fact is None}
    for token in tokens:
        if token.fact is not None and token.symbol == problem.facts[token.fact].conclusion:
            known.setdefault(token.symbol, token)
    for token in tokens:
        if token.fact is None or token.symbol not in shown:
            continue
        fact = problem.facts[token.fact]
        if shown.issuperset((*fact.premises, fact.conclusion)) and token.symbol in fact.premises:
            found.append((known[token.symbol], token))
    return found


def draw_arcs(ax: Axes, problem: Problem, tokens: list[Token], shown: set[str]) -> float:
    """The links as arcs above the boxes; returns the height of the tallest."""
    tallest = 1.0
    for start, end in links(problem, tokens, shown):
        bend = 0.35 if abs(end.x - start.x) > 2 else 0.8
        height = 0.45 + min(3.0, 0.5 * bend * abs(end.x - start.x))
        tallest = max(tallest, 0.45 + (height - 0.45) / 2)  # the curve reaches half the way to its control point
        arc = FancyArrowPatch(
            (start.x, 0.45),
            (end.x, 0.45),
            connectionstyle=f"arc3,rad={(1 if start.x > end.x else -1) * (height - 0.45) / abs(end.x - start.x)}",
            arrowstyle="-|>",
            mutation_scale=9,
            color=chain_colour(problem, start.symbol),
            lw=1.4,
        )
        ax.add_patch(arc)
    return tallest


def draw_steps(ax: Axes, problem: Problem, tokens: list[Token], size: float) -> None:
    """The name of each group under it: `step 1`, …, `queries`."""
    groups: dict[str, list[float]] = {}
    for token in tokens:
        name = "queries" if token.fact is None else f"step {problem.facts[token.fact].step}"
        groups.setdefault(name, []).append(token.x)
    for name, xs in groups.items():
        ax.text((xs[0] + xs[-1]) / 2, -1.1, name, ha="center", va="top", color=GREY, fontsize=size + 1)
