"""The interface of benchmarks: exercises, a score for every answer, and the scores of guessing.

A formulation's question has a few acceptable answers. The answer to an exercise is free text, such as the rules of a
function, which the benchmark parses by a grammar. Any other text is malformed: it scores 0 in every measure, and is
counted. Code that a model writes is never run.

Besides the right answer, an exercise has some wrong ones from the same distribution (`acceptable`). So a model can also
choose by `log_likelihood`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hopscope.formulations.base import Question, Questions
from hopscope.problem.oracle import Problem

CHOICES = 4  # answers to choose from
LONGEST = 10_000  # characters of an answer that are parsed


@dataclass(frozen=True)
class Mark:
    """The score of one answer.

    Attributes:
        valid: whether it can be parsed.
        measures: each of the benchmark's `MEASURES`, 0–1; all are 0 for a malformed answer.
    """

    valid: bool
    measures: Mapping[str, float]


@dataclass(frozen=True)
class Exercise(Question):
    """A question with a free-form answer.

    Attributes:
        benchmark: the benchmark that scores the answer.
    """

    benchmark: Benchmark

    def mark(self, text: str, lenient: bool = False) -> Mark:
        """The score of an answer: of the whole text, or with `lenient` of the valid parts that it contains."""
        return self.benchmark.mark(self, text[:LONGEST], lenient)

    def guess(self, number: int) -> str:
        return self.benchmark.guess(self, number)

    def as_dict(self) -> dict[str, Any]:
        """What `hopscope lm ask --json` prints: `{prompt, answer, choices}`."""
        return {"prompt": self.prompt, "answer": self.answer, "choices": list(self.acceptable)}


class Benchmark(Questions):
    """A benchmark. Subclasses are frozen dataclasses, one per file."""

    #: The names of its measures; the first is the main one.
    MEASURES: ClassVar[tuple[str, ...]]
    #: The most tokens of an answer.
    MAX_TOKENS: ClassVar[int] = 64

    @property
    def chance(self) -> float:
        return 1 / CHOICES

    @abstractmethod
    def floors(self, exercise: Exercise) -> dict[str, float]:
        """The exact mean of each measure over all guesses (`guess`) at an exercise."""

    @abstractmethod
    def question(self, seed: int, index: int) -> Exercise:
        """Exercise number `index`, from 0, under a seed; equal arguments give equal bytes."""

    @abstractmethod
    def guess(self, exercise: Exercise, number: int) -> str:
        """A well-formed answer that does not depend on the examples, chosen by a number, from 0."""

    @abstractmethod
    def mark(self, exercise: Exercise, text: str, lenient: bool) -> Mark:
        """The score of an answer; with `lenient` of the valid parts that the text contains."""

    def malformed(self) -> Mark:
        """The score of a malformed answer."""
        return Mark(False, dict.fromkeys(self.MEASURES, 0.0))

    def exercise(
        self,
        seed: int,
        index: int,
        statements: Sequence[str],
        ask: str,
        stem: str,
        answers: tuple[str, Sequence[str]],
    ) -> Exercise:
        """An exercise of this benchmark; `answers` are the right one, and all to choose from."""
        nothing: dict[str, Any] = {"asked": 0, "problem": Problem((), ()), "chain": ()}
        spans: dict[str, Any] = {"statement_spans": (), "ask_spans": (), "stem_spans": ()}
        return Exercise(
            formulation=self.name(),
            seed=seed,
            index=index,
            statements=tuple(statements),
            ask=ask,
            stem=stem,
            answer=answers[0],
            acceptable=tuple(answers[1]),
            benchmark=self,
            **nothing,
            **spans,
        )
