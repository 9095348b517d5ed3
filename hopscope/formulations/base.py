"""The base of formulations: the retrieval problem as a question in words (Musat, ICLR 2025, sections 4 and A).

A formulation is a frozen value with settings. `question(seed, index)` is a pure function of it, with the same bytes on
every machine and Python version. A question carries its problem in plain Python, so that its answer can be checked
against the oracle in `hopscope.problem.oracle`. It also gives the role of each span of its text, so that attention
between words can be named by role.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from hopscope.core import catalogue
from hopscope.core.settings import BadInput, Variant
from hopscope.problem.oracle import Problem


@dataclass(frozen=True)
class Span:
    """A span of a text, and its role.

    Attributes:
        start: index of its first character; a span is a whole word with its inflection (`Lawyers`, `Eves`).
        end: index after its last character.
        role: as in `hopscope.problem.roles`: `key[k]`, the premise of fact k of a chain (holds x_(k-1)); `value[k]`,
            its conclusion (holds x_k); `query`. Several premises of one fact are told apart by a letter: `key[3a]`,
            `key[3b]`.
        chain: the number of the chain, from 0; None for a fact that no chain needs.
    """

    start: int
    end: int
    role: str
    chain: int | None


@dataclass(frozen=True)
class Question:
    """One question in words.

    Attributes:
        formulation: the name of its formulation.
        seed: the seed of the question.
        index: the number of the question under that seed.
        statements: the facts, one line each, in their order of presentation.
        ask: the closing line: the question and the instruction to answer directly (appendix A).
        stem: a text that, put after the statements, a model continues with the answer; for equations
            `print(s)\\n# output:`. It ends without a space; the continuation is a space and the answer.
        answer: the right answer.
        acceptable: all answers that count as coherent, in the paper's order (appendix A).
        chain: the symbols from the query to the answer, x_0 … x_D, without inflection; where two symbols are asked
            about together or concluded at once, both (f, i, a, 0, 3 in appendix A.4).
        asked: the number of the chain that is asked about.
        problem: the oracle, with the facts in the order of the statements; `hops(*queries)` ends in the answer.
        statement_spans: spans within `"\\n".join(statements)`.
        ask_spans: spans within `ask`.
        stem_spans: spans within `stem`.
    """

    formulation: str
    seed: int
    index: int
    statements: tuple[str, ...]
    ask: str
    stem: str
    answer: str
    acceptable: tuple[str, ...]
    chain: tuple[str, ...]
    asked: int
    problem: Problem
    statement_spans: tuple[Span, ...]
    ask_spans: tuple[Span, ...]
    stem_spans: tuple[Span, ...]

    @property
    def facts(self) -> str:
        """The statements as one text."""
        return "\n".join(self.statements)

    def guess(self, number: int) -> str:
        """A guess: the acceptable answer of this number (0 or more, taken modulo their number)."""
        return self.acceptable[number % len(self.acceptable)]

    @property
    def prompt(self) -> str:
        """The question as the paper asks it: the statements and the closing line (appendix A)."""
        return self.closed(self.ask, self.ask_spans)[0]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans of `prompt`."""
        return self.closed(self.ask, self.ask_spans)[1]

    def closed(self, line: str, spans: tuple[Span, ...]) -> tuple[str, tuple[Span, ...]]:
        """The facts with a closing below them, and the spans of both; of a question without facts the closing alone."""
        text = "\n".join((*self.statements, line))
        return text, self.statement_spans + shifted(spans, len(text) - len(line))

    def without_facts(self) -> Question:
        """The closing line alone, without any fact: answers to it show a model's prior."""
        return replace(self, statements=(), statement_spans=())

    def as_dict(self) -> dict[str, Any]:
        """The value that `hopscope lm ask --json` prints: `{prompt, answer, acceptable, chain, spans}`."""
        return {
            "prompt": self.prompt,
            "answer": self.answer,
            "acceptable": list(self.acceptable),
            "chain": list(self.chain),
            "spans": [vars(span) for span in self.spans],
        }


def shifted(spans: tuple[Span, ...], by: int) -> tuple[Span, ...]:
    """The spans after their text has moved `by` characters later."""
    return tuple(Span(span.start + by, span.end + by, span.role, span.chain) for span in spans)


class Questions(Variant, ABC):
    """A source of questions: a formulation of the problem, or a benchmark (`hopscope.language.benchmarks`)."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """Accuracy of guessing among the acceptable answers (the dashed lines of figure 2)."""

    @abstractmethod
    def question(self, seed: int, index: int) -> Question:
        """Question number `index` (0 or more) under a seed; equal arguments give equal bytes."""


class Formulation(Questions):
    """A wording of the retrieval problem. Subclasses are frozen dataclasses, one per file, with the paper's defaults.

    Each has `n_hops` (D, `--hops`) and `n_chains` (N, `--chains`), and raises BadInput where its wording lacks them.
    """

    n_hops: int
    n_chains: int


def of_one_hop(name: str, hops: int | None = None, chains: int | None = None) -> Formulation:
    """A formulation by name, with `hops` hops; by default with one, or its own default where it cannot have one."""
    kind = catalogue.find("formulations", name)
    given: dict[str, int] = {} if chains is None else {"n_chains": chains}
    try:
        made: Formulation = kind(n_hops=1 if hops is None else hops, **given)
    except BadInput:
        if hops is not None:
            raise
        made = kind(**given)
    return made


def check_rounds(name: str, n_hops: int, rounds: int) -> None:
    """Raise BadInput if the number of hops asked for is not that of the wording."""
    if n_hops != rounds:
        raise BadInput(f"{name} always has {rounds} hops, because its wording has; got {n_hops}, leave --hops out")
