"""Rules that a hypothesis may state: a small grammar with its interpreter, so that each can be tried on examples.

In the paper a model's rule is made a program, which is run (Qiu et al., ICLR 2024, arXiv:2310.08559, section 2). Here a
rule is one of a few dozen sentences of a grammar, looked up and never run as code. Tasks and words are ours.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hopscope.formulations.base_draw import Draw
from hopscope.language.protocols.base import bare

#: An example: what a rule is given, and what it makes of it.
Example = tuple[Any, str]


class Domain(ABC):
    """A kind of inputs, and all rules on them. What a rule makes of an input is told as it is written down."""

    #: Every rule in words; each a function of its own.
    rules: Mapping[str, Any]
    #: An example: of an input, and of what is made of it.
    STATEMENT: ClassVar[str]
    #: Questions: for an output, and for the rule; and how the answer to each begins.
    ASK_OUTPUT: ClassVar[str]
    ASK_RULE: ClassVar[str]
    STEM_OUTPUT: ClassVar[str]
    STEM_RULE: ClassVar[str]

    @abstractmethod
    def applied(self, rule: str, given: Any) -> str:
        """What a rule makes of an input."""

    @abstractmethod
    def drawn(self, draw: Draw) -> Any:
        """An input."""

    @abstractmethod
    def told(self, given: Any) -> str:
        """An input in words."""

    def statement(self, given: Any, made: str) -> str:
        """An example in words."""
        return self.STATEMENT.format(self.told(given), made)

    @abstractmethod
    def read_output(self, text: str, lenient: bool) -> str | None:
        """The output that a text is, or that stands last in it; None: none."""

    @abstractmethod
    def read_rule(self, text: str, lenient: bool) -> str | None:
        """The rule that a text is, or that stands last in it; None: none."""

    @abstractmethod
    def spoilt(self, made: str, given: Any, draw: Draw) -> str:
        """Another output for an input than a rule makes."""

    def last(self, pattern: str, text: str, lenient: bool) -> str | None:
        """What a text is, if that is of a pattern, or what of it stands last in the text; None: nothing."""
        found = re.findall(pattern, text) if lenient else re.findall(rf"\A{pattern}\Z", bare(text))
        return found[-1] if found else None

    def kept(self, rule: str, examples: Sequence[Example]) -> int:
        """How many examples a rule gives rightly."""
        return sum(self.applied(rule, given) == made for given, made in examples)

    def consistent(self, examples: Sequence[Example]) -> list[str]:
        """The exact learner: all rules that give every example rightly."""
        return [rule for rule in self.rules if all(self.applied(rule, given) == made for given, made in examples)]
