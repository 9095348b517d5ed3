"""The interface of protocols: how a question is put to a model, how often it is asked, and how answers are judged.

The accuracy of one model can be 0 %, 23 % or 62 % under different protocols (docs/language.md). So the protocol is a
separate choice, with a file for each. Protocols that make the same requests share their answers. Some protocols are
rules, which judge answers; others change the question, and use one of these rules.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any, ClassVar

from hopscope.core import catalogue
from hopscope.core.settings import Variant, setting
from hopscope.formulations.base import Question, Questions
from hopscope.language.backends.base import Sampling

#: The answer to one attempt: `{text}`, with `finish_reason`, `thoughts` and `left_out` if known
#: (`hopscope.language.turns`); or `{scores, blank}`, lists of log-likelihoods in nats.
Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Judged:
    """The judgement of one question.

    Attributes:
        index: of the question.
        label: the acceptable answer that the model gave; None if it gave none.
        correct: whether `label` is the right answer.
        tries: how often the question was asked.
        accepted: how many of these tries gave an acceptable answer.
        run_out: whether the question is unanswered, neither right nor wrong: no try gave an acceptable answer, or the
            chain of thought was cut off.
        mass: total probability of the acceptable answers, 0–1; NaN if unknown.
        corrected: as `label`, after subtracting from every answer's score its score without the statements; None if
            unknown.
    """

    index: int
    label: str | None
    correct: bool
    tries: int
    accepted: int
    run_out: bool = False
    mass: float = nan
    corrected: str | None = None


class Put(Questions):
    """Questions of another source, changed before they are put to a model; their answers are unchanged."""

    def __init__(self, source: Questions, change: Callable[[Question], Question]):
        self.source, self.change = source, change

    @property
    def chance(self) -> float:
        return self.source.chance

    def question(self, seed: int, index: int) -> Question:
        return self.change(self.source.question(seed, index))


class Protocol(Variant, ABC):
    """A way to ask and to score. Subclasses are frozen dataclasses, one per file."""

    #: Whether the answer comes without a chain of thought; scores of the two kinds are never combined.
    direct: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """Its name in tables."""
        return self.name()

    @property
    @abstractmethod
    def rule(self) -> Rule:
        """The rule by which the model is asked and judged."""

    @abstractmethod
    def given(self, **settings: Any) -> Protocol:
        """A copy of this protocol with those of the given settings that it has."""

    def put(self, questions: Questions) -> Questions:
        """The questions as they are put to the model; solved questions in the prompt are changed in the same way."""
        return questions


class Rule(Protocol):
    """A protocol that judges answers, and leaves questions unchanged."""

    #: Whether the model scores the acceptable answers, instead of generating text.
    scores = False
    #: Whether an answer counts in a sentence, too.
    lenient = False

    @property
    def rule(self) -> Rule:
        return self

    def given(self, **settings: Any) -> Protocol:
        return self.but(**{name: value for name, value in settings.items() if name in self.as_dict()})

    @abstractmethod
    def request(self) -> dict[str, Any]:
        """The settings that its requests depend on; protocols with equal requests share their answers."""

    def sampling(self, question: Question, attempt: int) -> Sampling:
        """How a text is generated for an attempt, counted from 0."""
        raise NotImplementedError(f"{self.name()} asks for no text")

    def wants_more(self, question: Question, answers: Sequence[Answer]) -> bool:
        """Whether the question must be asked again after these answers."""
        return not answers

    @abstractmethod
    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        """Judge a question that needs no more answers."""


@dataclass(frozen=True)
class Otherwise(Protocol):
    """A protocol that changes a question as another protocol puts it, and uses its rule."""

    by: str = setting("greedy_lenient", "protocol by which answers are asked for and judged")

    @property
    def title(self) -> str:
        return str(self)

    @cached_property
    def inner(self) -> Protocol:
        """The other protocol."""
        return catalogue.chosen("language.protocols", self.by)  # type: ignore[no-any-return]

    @property
    def rule(self) -> Rule:
        return self.inner.rule

    @property
    def direct(self) -> bool:  # type: ignore[override]
        return self.inner.direct

    def given(self, **settings: Any) -> Protocol:
        return self.but(by=str(self.inner.given(**settings)))

    def put(self, questions: Questions) -> Questions:
        return Put(self.inner.put(questions), self.changed)

    @abstractmethod
    def changed(self, question: Question) -> Question:
        """The question as it is put to a model."""


def sampling_seed(seed: int, index: int, attempt: int) -> int:
    """The seed of one attempt at one question, 0 to 2^31 − 1; it does not depend on interruptions of a run."""
    digest = hashlib.sha256(f"{seed}/{index}/{attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


#: Invisible characters that `strip` leaves: a zero-width space and a byte-order mark.
INVISIBLE = "\u200b\ufeff"


def text_in(answer: Answer) -> str:
    """The text of an answer; empty if the token limit cut it off, because its answer is then unknown."""
    return "" if answer.get("finish_reason") == "length" else str(answer["text"])


def accepted(text: str, acceptable: Sequence[str]) -> str | None:
    """The acceptable answer that a text consists of, apart from surrounding blanks and one full stop; else None."""
    return answer if (answer := bare(text)) in acceptable else None


def bare(text: str) -> str:
    """A text without surrounding blanks and invisible characters, and without one final full stop."""
    return text.strip().strip(INVISIBLE).strip().removesuffix(".").rstrip()


#: Signs that join two numbers into one expression: a point, comma, colon, slash or dash.
JOINS = r".,:/\-\u2212\u2013"


def last_named(text: str, acceptable: Sequence[str]) -> str | None:
    """The last acceptable answer in a text that is a word or number of its own; None if there is none."""
    either = "|".join(map(alone, sorted(acceptable, key=len, reverse=True)))
    named = re.findall(either, text)
    return named[-1] if named else None


def alone(answer: str) -> str:
    """A pattern for an answer that is not part of a longer word.

    A number must not be part of another number, range, fraction or time either: -2, 2.5, .2, 1-2, 2/3 and 2:30 are not
    2. A bullet before it, as in `- 2`, is allowed.
    """
    if answer.isdecimal():
        before = rf"(?<![\w\-\u2212])(?<!\d[{JOINS}])(?<!^\.)(?<![\s=(]\.)"
        return rf"{before}{re.escape(answer)}(?!\w)(?![{JOINS}]\d)"
    return rf"(?<!\w){re.escape(answer)}(?!\w)"
