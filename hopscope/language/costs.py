"""Upper bounds on the requests and tokens of an evaluation, computed before anything is asked.

Prompts are counted with the model's own tokenizer if it is available, otherwise by characters (`Backend.n_tokens`).
Every text is assumed to reach its token limit, and every question to need all of its tries. Scoring is assumed to take
one request per acceptable answer, and as many again for the question without its facts. This holds for an endpoint with
`echo`; a model in this process reads each prompt only once. Answers that are already kept are counted, too.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from hopscope.language.evaluation import Cell

SAMPLED = 100  # questions that are counted; the others are assumed to have the same mean length


class Cost(NamedTuple):
    """The requests of an evaluation, and the tokens that the model reads (`tokens_in`) and writes (`tokens_out`)."""

    requests: int
    tokens_in: int
    tokens_out: int

    def at(self, read: float, written: float) -> float:
        """The total cost, given the cost of a token that is read and of one that is written."""
        return self.tokens_in * read + self.tokens_out * written


def cost_of(cell: Cell) -> Cost:
    """An upper bound for one cell of an evaluation; nothing is asked."""
    n, count = min(SAMPLED, cell.settings.count), cell.settings.count
    counted = [of_question(cell, number) for number in range(n)]
    return Cost(*(ceil(sum(column) * count / n) for column in zip(*counted, strict=True)))


def of_question(cell: Cell, number: int) -> Cost:
    """An upper bound for one question."""
    question, asked, blank = cell.made(number)
    if blank is None:
        tries, limit = getattr(cell.rule, "max_tries", 1), cell.rule.sampling(question, 0).max_tokens
        return Cost(tries, tries * cell.backend.n_tokens(asked), tries * limit)
    texts = [replace(one, text=one.text + choice) for one in (asked, blank) for choice in one.choices]
    return Cost(len(texts), sum(map(cell.backend.n_tokens, texts)), len(texts))
