"""Rules that are an operation, or two operations in sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

from hopscope.language.domains.base import Domain

THEN = " then "
WHICH = (
    "Which rule does f follow: one of {}, or two of them, as in {}? Say directly only the rule, without any other "
    "words."
)


class Sequences(Domain):
    """One operation on an input, or two in sequence. Subclasses say which operations, and how inputs are written."""

    #: Operations by name, in the order of the question.
    OPERATIONS: ClassVar[Mapping[str, Callable[[Any], Any]]]
    #: Inputs that distinguish any two different functions.
    PROBES: ClassVar[Sequence[Any]]

    @cached_property
    def named(self) -> dict[tuple[Any, ...], str]:
        """The rule for each series of outputs for the probes: of equivalent rules the first of the shortest."""
        first: dict[tuple[Any, ...], str] = {}
        for names in [*((name,) for name in self.OPERATIONS), *product(self.OPERATIONS, repeat=2)]:
            first.setdefault(self.probed(names), THEN.join(names))
        return first

    @cached_property
    def rules(self) -> dict[str, list[str]]:  # type: ignore[override]
        """The names of each rule's operations."""
        return {rule: rule.split(THEN) for rule in self.named.values()}

    def run(self, names: Iterable[str], given: Any) -> Any:
        """Apply operations in sequence."""
        for name in names:
            given = self.OPERATIONS[name](given)
        return given

    def probed(self, names: Sequence[str]) -> tuple[Any, ...]:
        """The outputs of a sequence of operations for the probes."""
        return tuple(self.run(names, probe) for probe in self.PROBES)

    def applied(self, rule: str, given: Any) -> str:
        return self.told(self.run(self.rules[rule], given))

    def read_rule(self, text: str, lenient: bool) -> str | None:
        either = "|".join(self.OPERATIONS)
        match = self.last(rf"(?<!\w)(?:{either})(?:{THEN}(?:{either}))?(?!\w)", text, lenient)
        return self.named[self.probed(match.split(THEN))] if match else None
