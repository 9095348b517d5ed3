"""What an evaluation will ask of a model, before it asks: requests, and tokens read and written, at most.

Prompts are counted by the model's own tokenizer where it is at hand, else by characters (`Backend.n_tokens`). Every
text is taken to be as long as its limit allows, and every question to need all of its tries. Scores take a request per
acceptable answer, and as many for the question without its facts, as an endpoint's `echo` does; a model in this process
reads a prompt once for all of them. What has been answered before is counted, too.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from hopscope.language.evaluation import Cell

SAMPLED = 100  # questions that are counted; the others are taken to be as long on average


class Cost(NamedTuple):
    """Of some questions: how many requests, and tokens that are read and written."""

    requests: int
    tokens_in: int
    tokens_out: int

    def at(self, read: float, written: float) -> float:
        """All tokens together, where one that is read and one that is written cost so much."""
        return self.tokens_in * read + self.tokens_out * written


def cost_of(cell: Cell) -> Cost:
    """Of one row of the table, at most; nothing is asked."""
    n, count = min(SAMPLED, cell.settings.count), cell.settings.count
    counted = [of_question(cell, number) for number in range(n)]
    return Cost(*(ceil(sum(column) * count / n) for column in zip(*counted, strict=True)))


def of_question(cell: Cell, number: int) -> Cost:
    """Of one question."""
    question, asked, blank = cell.made(number)
    if blank is None:
        tries, limit = getattr(cell.rule, "max_tries", 1), cell.rule.sampling(question, 0).max_tokens
        return Cost(tries, tries * cell.backend.n_tokens(asked), tries * limit)
    texts = [replace(one, text=one.text + choice) for one in (asked, blank) for choice in one.choices]
    return Cost(len(texts), sum(map(cell.backend.n_tokens, texts)), len(texts))
