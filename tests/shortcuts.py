"""Ways to answer without following the facts. Each takes a question and names one of its acceptable answers.

They read the text, and of the question only what anybody sees: its lines, what is asked and which answers may be given.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property

from hopscope.formulations.base import Question


class Look:
    """What a superficial reader sees of a question."""

    def __init__(self, question: Question):
        self.lines, self.choices = question.statements, question.acceptable
        self.text, self.query = question.facts, question.problem.queries

    @cached_property
    def mentions(self) -> list[tuple[int, str]]:
        """Where an acceptable answer stands in the facts, and which."""
        pattern = r"\b(?:" + "|".join(self.choices) + r")\b"
        return [(found.start(), found[0]) for found in re.finditer(pattern, self.text)]

    @cached_property
    def answers(self) -> list[str]:
        """The acceptable answers as they are mentioned, one after the other."""
        return [answer for _, answer in self.mentions]

    @cached_property
    def places(self) -> list[int]:
        """Where what is asked about stands in the facts; of several, the first."""
        return [found.start() for found in re.finditer(rf"\b{self.query[0]}s?\b", self.text)]

    @cached_property
    def row(self) -> int:
        """Among the lines of its own kind, the number of the one that is about what is asked."""
        return self.line % len(self.choices)

    @cached_property
    def line(self) -> int:
        return self.text[: self.places[-1]].count("\n")

    def nearest(self, place: int) -> str:
        return min(self.mentions, key=lambda mention: abs(mention[0] - place))[1]

    def by_count(self, sign: int) -> str:
        counts = {answer: self.answers.count(answer) for answer in self.answers}
        return min(counts, key=lambda answer: sign * counts[answer])

    def at(self, place: int) -> str:
        """The answer mentioned at a place, counted from either end and round in a circle."""
        return self.answers[place % len(self.answers)]

    def named(self, place: int) -> str:
        """The answer at a place in the list of the acceptable ones."""
        return self.choices[place % len(self.choices)]


SHORTCUTS: dict[str, Callable[[Look], str]] = {
    "last value mentioned (last line)": lambda look: look.at(-1),
    "first value mentioned": lambda look: look.at(0),
    "second value mentioned": lambda look: look.at(1),
    "last value but one": lambda look: look.at(-2),
    "value in the middle": lambda look: look.at(len(look.answers) // 2),
    "most frequent value": lambda look: look.by_count(-1),
    "least frequent value": lambda look: look.by_count(1),
    "value nearest to the first mention of what is asked": lambda look: look.nearest(look.places[0]),
    "value nearest to its last mention": lambda look: look.nearest(look.places[-1]),
    "value in the same row of the first block": lambda look: look.at(look.row),
    "value in the mirrored row of the first block": lambda look: look.at(len(look.choices) - 1 - look.row),
    "first answer in the alphabet": lambda look: look.named(0),
    "last answer in the alphabet": lambda look: look.named(-1),
    "answer at the asked symbol's place in the alphabet": lambda look: look.named(ord(look.query[0][0])),
    "the same, mirrored": lambda look: look.named(-ord(look.query[0][0])),
    "parity of the asked symbol's letter": lambda look: look.named(ord(look.query[0][0]) % 2),
    "parity of its line": lambda look: look.at(look.line % 2),
    "one number for all questions": lambda look: look.named(len(look.text)),
}


def without_function(made: Question) -> str:
    """F4 for those who overlook the function: the value that most tables have for the argument."""
    lines = dict(line.split(" = ") for line in made.statements)
    argument = lines[made.problem.queries[1]]
    return Counter(value for name, value in lines.items() if name.endswith(f"({argument})")).most_common(1)[0][0]
