"""Functions on lists of numbers: one operation, or two in sequence (ours, after Rule, 2020)."""

from __future__ import annotations

import re
from itertools import product

from hopscope.formulations.base_draw import Draw
from hopscope.language.domains.base_sequences import WHICH, Sequences

Numbers = tuple[int, ...]
LIST = r"\[\s*(?:\d{1,4}(?:\s*,\s*\d{1,4}){0,31})?\s*\]"


class Lists(Sequences):
    """Lists of three to five numbers from 0 to 9."""

    OPERATIONS = {  # noqa: RUF012
        "reverse": lambda x: x[::-1],
        "sort": lambda x: tuple(sorted(x)),
        "unique": lambda x: tuple(dict.fromkeys(x)),
        "evens": lambda x: tuple(n for n in x if n % 2 == 0),
        "double": lambda x: tuple(2 * n for n in x),
        "increment": lambda x: tuple(n + 1 for n in x),
        "rest": lambda x: x[1:],
        "chop": lambda x: x[:-1],
    }
    PROBES = (*product(range(4), repeat=3), (2, 1, 2, 4), (4, 3, 4, 1, 1), (0, 5, 2, 5, 6, 6))
    ASK_OUTPUT = "What is f({})? Say directly only the list, without any other words."
    ASK_RULE = WHICH.format(", ".join(OPERATIONS), "sort then rest")

    def drawn(self, draw: Draw) -> Numbers:
        return tuple(draw.below(10) for _ in range(3 + draw.below(3)))

    def told(self, given: Numbers) -> str:
        return f"[{', '.join(map(str, given))}]"

    def read_output(self, text: str, lenient: bool) -> str | None:
        match = self.last(LIST, text, lenient)
        return self.told(tuple(map(int, re.findall(r"\d+", match)))) if match else None
