"""Functions on lists of numbers: one operation, or two in sequence (ours, after Rule, 2020)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property
from itertools import product

from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.base_hypotheses import Domain

Numbers = tuple[int, ...]

#: Operations by name, in the order of the question.
OPERATIONS: dict[str, Callable[[Numbers], Numbers]] = {
    "reverse": lambda x: x[::-1],
    "sort": lambda x: tuple(sorted(x)),
    "unique": lambda x: tuple(dict.fromkeys(x)),
    "evens": lambda x: tuple(n for n in x if n % 2 == 0),
    "double": lambda x: tuple(2 * n for n in x),
    "increment": lambda x: tuple(n + 1 for n in x),
    "rest": lambda x: x[1:],
    "chop": lambda x: x[:-1],
}
THEN = " then "
LIST = r"\[\s*(?:\d{1,4}(?:\s*,\s*\d{1,4}){0,31})?\s*\]"
#: Inputs that distinguish any two different functions.
PROBES = (*product(range(4), repeat=3), (2, 1, 2, 4), (4, 3, 4, 1, 1), (0, 5, 2, 5, 6, 6))


class Lists(Domain):
    """Lists of three to five numbers from 0 to 9."""

    STATEMENT = "f({}) = {}"
    ASK_OUTPUT = "What is f({})? Say directly only the list, without any other words."
    ASK_RULE = (
        f"Which rule does f follow: one of {', '.join(OPERATIONS)}, or two of them, as in sort{THEN}rest? Say directly "
        "only the rule, without any other words."
    )
    STEM_OUTPUT = "f({}) ="
    STEM_RULE = "The rule of f:"

    @cached_property
    def rules(self) -> dict[str, tuple[str, ...]]:  # type: ignore[override]
        """Sequences of operations by name; of equivalent ones only the first of the shortest."""
        first: dict[tuple[Numbers, ...], tuple[str, ...]] = {}
        for names in [*((name,) for name in OPERATIONS), *product(OPERATIONS, repeat=2)]:
            first.setdefault(tuple(run(names, probe) for probe in PROBES), names)
        return {THEN.join(names): names for names in first.values()}

    def applied(self, rule: str, given: Numbers) -> str:
        return written(run(self.rules[rule], given))

    def drawn(self, draw: Draw) -> Numbers:
        return tuple(draw.below(10) for _ in range(3 + draw.below(3)))

    def told(self, given: Numbers) -> str:
        return written(given)

    def read_output(self, text: str, lenient: bool) -> str | None:
        match = self.last(LIST, text, lenient)
        return written(tuple(map(int, re.findall(r"\d+", match)))) if match else None

    def read_rule(self, text: str, lenient: bool) -> str | None:
        either = "|".join(OPERATIONS)
        match = self.last(rf"(?<!\w)(?:{either})(?:{THEN}(?:{either}))?(?!\w)", text, lenient)
        return self.called(tuple(match.split(THEN))) if match else None

    def called(self, names: tuple[str, ...]) -> str:
        """The name in `rules` of a sequence of operations."""
        own = THEN.join(names)
        return own if own in self.rules else same_as(names)

    def spoilt(self, made: str, given: Numbers, draw: Draw) -> str:
        others = sorted({self.applied(rule, given) for rule in self.rules} - {made})
        return others[draw.below(len(others))]


def run(names: tuple[str, ...], given: Numbers) -> Numbers:
    """Apply operations in sequence."""
    for name in names:
        given = OPERATIONS[name](given)
    return given


def written(numbers: Numbers) -> str:
    """A list as text: `[3, 1]`."""
    return f"[{', '.join(map(str, numbers))}]"


@cache
def same_as(names: tuple[str, ...]) -> str:
    """The rule that is equivalent to a sequence of operations."""
    made = [run(names, probe) for probe in PROBES]
    return next(rule for rule, own in LISTS.rules.items() if [run(own, probe) for probe in PROBES] == made)


LISTS = Lists()
