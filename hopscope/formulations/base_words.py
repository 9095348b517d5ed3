"""Facts put into words, with the place and purpose of every word that matters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hopscope.formulations.base import Formulation, Question, Span
from hopscope.problem.oracle import Fact, Problem


class Word(NamedTuple):
    """A word of a line that stands for a symbol: as it is written, inflected where grammar asks for it.

    `role` and `chain` are as in `Span`.
    """

    text: str
    role: str
    chain: int | None


class Line(NamedTuple):
    """A line of text and its spans, counted from its first character."""

    text: str
    spans: tuple[Span, ...]


class Statement(NamedTuple):
    """A fact and the line that states it."""

    fact: Fact
    line: Line


def written(template: str, *words: Word) -> Line:
    """The template with a word in place of each `{}`.

    >>> written("{} = {}", Word("b", "key[1]", 0), Word("a", "value[1]", 0)).text
    'b = a'
    """
    first, *rest = template.split("{}")
    text, spans = first, []
    for word, after in zip(words, rest, strict=True):
        end = len(text) + len(word.text)
        spans.append(Span(len(text), end, word.role, word.chain))
        text += word.text + after
    return Line(text, tuple(spans))


def spans_of(lines: Iterable[Line]) -> tuple[Span, ...]:
    """The spans of lines that stand one below the other."""
    found, start = [], 0
    for line in lines:
        found += [Span(start + span.start, start + span.end, span.role, span.chain) for span in line.spans]
        start += len(line.text) + 1
    return tuple(found)


def compose(
    source: Formulation,
    seed: int,
    index: int,
    statements: Sequence[Statement],
    *,
    closing: tuple[str, str],
    query: Sequence[str],
    asked: int,
    chain: tuple[str, ...],
    acceptable: tuple[str, ...],
) -> Question:
    """A question from its statements.

    Args:
        source: its formulation.
        seed: what it was drawn from.
        index: likewise.
        statements: in the order in which they are presented.
        closing: the closing line and the stem, with `{}` for every symbol that is asked about.
        query: these symbols.
        asked: number of their chain.
        chain: the symbols from the query to the answer.
        acceptable: the answers that count.
    """
    ask, stem = (written(template, *(Word(symbol, "query", asked) for symbol in query)) for template in closing)
    return Question(
        formulation=source.name(),
        seed=seed,
        index=index,
        statements=tuple(statement.line.text for statement in statements),
        ask=ask.text,
        stem=stem.text,
        answer=chain[-1],
        acceptable=acceptable,
        chain=chain,
        asked=asked,
        problem=Problem(tuple(statement.fact for statement in statements), tuple(query)),
        statement_spans=spans_of(statement.line for statement in statements),
        ask_spans=ask.spans,
        stem_spans=stem.spans,
    )
