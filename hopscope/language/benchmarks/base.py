"""The interface of benchmarks: exercises, a score for every answer, and the scores of guessing.

A formulation's question has a few acceptable answers. The answer to an exercise is free text, such as the rules of a
function, which the benchmark parses by a grammar. Any other text is malformed: it scores 0 in every measure, and is
counted. Code that a model writes is never run.

Besides the right answer an exercise has some wrong ones from the same distribution (`acceptable`), so that a model can
also choose by `log_likelihood`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hopscope.formulations.base import Question, Questions
from hopscope.problem.oracle import Problem

CHOICES = 4  # answers among which a model may choose
LONGEST = 10_000  # characters of an answer that are read


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
    """A question that is answered by a text of its own.

    Attributes:
        benchmark: which reads that text.
    """

    benchmark: Benchmark

    def mark(self, text: str, lenient: bool = False) -> Mark:
        """An answer to it, marked: the whole text, or whatever it holds that is an answer."""
        return self.benchmark.mark(self, text[:LONGEST], lenient)

    def guess(self, number: int) -> str:
        return self.benchmark.guess(self, number)

    def as_dict(self) -> dict[str, Any]:
        """What `hopscope lm ask --json` prints: `{prompt, answer, choices}`."""
        return {"prompt": self.prompt, "answer": self.answer, "choices": list(self.acceptable)}


class Benchmark(Questions):
    """A benchmark. Subclasses are frozen dataclasses, one per file."""

    #: What an answer is marked by; the first is the one that is told where there is room for one.
    MEASURES: ClassVar[tuple[str, ...]]
    #: After how many tokens an answer is cut off.
    MAX_TOKENS: ClassVar[int] = 64

    @property
    def chance(self) -> float:
        return 1 / CHOICES

    @abstractmethod
    def floors(self, exercise: Exercise) -> dict[str, float]:
        """The mean of each measure over all guesses (`guess`) at an exercise, exactly."""

    @abstractmethod
    def question(self, seed: int, index: int) -> Exercise:
        """Exercise number `index` (0 or more) under a seed; equal arguments give equal bytes."""

    @abstractmethod
    def guess(self, exercise: Exercise, number: int) -> str:
        """An answer of the right form by somebody who has not seen the examples, by a number (0 or more)."""

    @abstractmethod
    def mark(self, exercise: Exercise, text: str, lenient: bool) -> Mark:
        """The score of an answer; `lenient` extracts valid parts from other text."""

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
        """An exercise of this benchmark; `answers` are the right one, and all among which may be chosen."""
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
