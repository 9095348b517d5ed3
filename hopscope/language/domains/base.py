"""Rules that a hypothesis may state: a small grammar with an interpreter, so that each rule can be tested on examples.

In the paper a model's rule is translated into a program, which is run (Qiu et al., ICLR 2024, arXiv:2310.08559, section
2). Here a rule is one of a few dozen sentences of a grammar, which are looked up and never run as code. The tasks and
their wording are ours.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.base import CHOICES
from hopscope.language.protocols.base import bare

#: An example: the input of a rule, and its output as text.
Example = tuple[Any, str]


class Domain(ABC):
    """A kind of input, and all rules for it. Outputs are texts."""

    #: Every rule by its wording; no two rules are the same function.
    rules: Mapping[str, Any]
    #: The number of outputs to choose from.
    OUTPUTS: ClassVar[int] = CHOICES
    #: The template of an example: its input and its output.
    STATEMENT: ClassVar[str] = "f({}) = {}"
    #: The questions for an output and for the rule, and the stems of their answers.
    ASK_OUTPUT: ClassVar[str]
    ASK_RULE: ClassVar[str]
    STEM_OUTPUT: ClassVar[str] = "f({}) ="
    STEM_RULE: ClassVar[str] = "The rule of f:"

    @abstractmethod
    def applied(self, rule: str, given: Any) -> str:
        """The output of a rule for an input."""

    @abstractmethod
    def drawn(self, draw: Draw) -> Any:
        """A random input, which can be hashed, and for which not all rules have the same output."""

    @abstractmethod
    def told(self, given: Any) -> str:
        """An input as text."""

    @abstractmethod
    def read_output(self, text: str, lenient: bool) -> str | None:
        """The output in an answer: the whole text, or with `lenient` the last one that it contains; None if none."""

    @abstractmethod
    def read_rule(self, text: str, lenient: bool) -> str | None:
        """The rule in an answer: the whole text, or with `lenient` the last one that it contains; None if none."""

    def last(self, pattern: str, text: str, lenient: bool) -> str | None:
        """The text if it matches a pattern, or with `lenient` the last match in it; None if there is none."""
        matches = re.findall(pattern, text) if lenient else re.findall(rf"\A{pattern}\Z", bare(text))
        return matches[-1] if matches else None

    def outputs(self, given: Any) -> list[str]:
        """The outputs of all rules for an input, each once, sorted."""
        return sorted({self.applied(rule, given) for rule in self.rules})

    def spoilt(self, made: str, given: Any, draw: Draw) -> str:
        """A wrong output for an input, other than `made`: the output of another rule."""
        others = [output for output in self.outputs(given) if output != made]
        return others[draw.below(len(others))]

    def kept(self, rule: str, examples: Sequence[Example]) -> int:
        """The number of examples whose output a rule gives."""
        return sum(self.applied(rule, given) == made for given, made in examples)

    def consistent(self, examples: Sequence[Example]) -> list[str]:
        """The exact learner: all rules that give the outputs of all examples."""
        return [rule for rule in self.rules if all(self.applied(rule, given) == made for given, made in examples)]
