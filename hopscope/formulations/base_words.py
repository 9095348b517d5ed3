"""Facts in words, with the span and role of every word that stands for a symbol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hopscope.formulations.base import Formulation, Question, Span
from hopscope.problem.oracle import Fact, Problem


class Word(NamedTuple):
    """A word that stands for a symbol, spelt as the line needs it.

    `role` and `chain` are as in `Span`.
    """

    text: str
    role: str
    chain: int | None


class Line(NamedTuple):
    """A line of text and its spans."""

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
    """The spans of several lines joined by newlines."""
    spans, start = [], 0
    for line in lines:
        spans += [Span(start + span.start, start + span.end, span.role, span.chain) for span in line.spans]
        start += len(line.text) + 1
    return tuple(spans)


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
    """A question made of its statements.

    Args:
        source: its formulation.
        seed: the question's seed.
        index: the question's number.
        statements: the statements, in their order of presentation.
        closing: the closing line and the stem, with `{}` for every symbol that is asked about.
        query: the symbols that are asked about.
        asked: the number of their chain.
        chain: the symbols from the query to the answer.
        acceptable: the answers that count as coherent.
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
