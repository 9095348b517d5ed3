"""What every protocol offers: how a question is put to a model, when it has been answered, and how it is judged.

One number hides how it came about: one model is right in 0 %, 23 % or 62 % of cases by different rules
(docs/language.md). So a protocol is a choice of its own, in a file of its own. Protocols that ask the same share
answers. Some judge, by a rule of their own; others put the question otherwise, and judge by one of these rules.
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

#: What a model said to one attempt: `{text}`, where known with `finish_reason`, `thoughts` and `left_out`
#: (`hopscope.language.turns`); or `{scores, blank}`, lists of log-likelihoods in nats.
Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Judged:
    """One question, judged.

    Attributes:
        index: of the question.
        label: the acceptable answer that the model is taken to have given; None if it gave none.
        correct: whether that is the right one.
        tries: how often it was asked.
        accepted: how many of these answers were of the right form.
        run_out: whether it stays unanswered, neither right nor wrong: it was asked as often as allowed without an
            acceptable answer, or its chain of thought was cut off.
        mass: total probability of the acceptable answers; NaN where it is not known.
        corrected: as `label`, when every answer's score is taken relative to what it gets without the statements; None
            where that is not known.
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
    """The questions of another source, each changed before it is put to a model; its answers stay what they were."""

    def __init__(self, source: Questions, change: Callable[[Question], Question]):
        self.source, self.change = source, change

    @property
    def chance(self) -> float:
        return self.source.chance

    def question(self, seed: int, index: int) -> Question:
        return self.change(self.source.question(seed, index))


class Protocol(Variant, ABC):
    """A way to ask and to score. Subclasses are frozen dataclasses, one per file."""

    #: Whether the answer is given without a thought before it; scores of the two kinds are never taken together.
    direct: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """What tables call it."""
        return self.name()

    @property
    @abstractmethod
    def rule(self) -> Rule:
        """By which the model is asked and judged."""

    @abstractmethod
    def given(self, **settings: Any) -> Protocol:
        """The same with those of the settings that it has."""

    def put(self, questions: Questions) -> Questions:
        """The questions as they are put to the model, and so are solved ones that it is shown."""
        return questions


class Rule(Protocol):
    """A way to score."""

    #: Whether the model's probabilities are asked for, or its words.
    scores = False

    @property
    def rule(self) -> Rule:
        return self

    def given(self, **settings: Any) -> Protocol:
        return self.but(**{name: value for name, value in settings.items() if name in self.as_dict()})

    @abstractmethod
    def request(self) -> dict[str, Any]:
        """What is asked, whoever judges it: answers to equal requests are shared between protocols."""

    def sampling(self, question: Question, attempt: int) -> Sampling:
        """How a text is to be generated."""
        raise NotImplementedError(f"{self.name()} asks for no text")

    def wants_more(self, question: Question, answers: Sequence[Answer]) -> bool:
        """Whether the question is to be asked again, after these answers."""
        return not answers

    @abstractmethod
    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        """A question that needs no more answers."""


@dataclass(frozen=True)
class Otherwise(Protocol):
    """A way to put a question, scored by another protocol's rule: only the text differs from what that one asks."""

    by: str = setting("greedy_lenient", "protocol by which answers are asked for and judged")

    @property
    def title(self) -> str:
        return str(self)

    @cached_property
    def rule(self) -> Rule:  # type: ignore[override]
        found: Rule = catalogue.chosen("language.protocols", self.by).rule
        return found

    def given(self, **settings: Any) -> Protocol:
        return self.but(by=str(self.rule.given(**settings)))


def sampling_seed(seed: int, index: int, attempt: int) -> int:
    """The seed of one attempt at one question, 0 to 2^31 − 1: the same however often a run is interrupted."""
    digest = hashlib.sha256(f"{seed}/{index}/{attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


#: What nobody sees, and `strip` leaves: a space of no width, a mark of byte order.
INVISIBLE = "\u200b\ufeff"


def text_in(answer: Answer) -> str:
    """The text of an answer; one that the limit of tokens cut off is none, for what it would have said is not known."""
    return "" if answer.get("finish_reason") == "length" else str(answer["text"])


def accepted(text: str, acceptable: Sequence[str]) -> str | None:
    """The answer, if the text is an acceptable one and nothing else; blanks around and one full stop are allowed."""
    return found if (found := bare(text)) in acceptable else None


def bare(text: str) -> str:
    """A text without blanks, what nobody sees around it, and one full stop."""
    return text.strip().strip(INVISIBLE).strip().removesuffix(".").rstrip()


#: What joins two numbers to one thing: a point, comma, colon, slash or dash.
JOINS = r".,:/\-\u2212\u2013"


def last_named(text: str, acceptable: Sequence[str]) -> str | None:
    """The acceptable answer that stands last in a text as a word, or number, of its own; None if there is none."""
    either = "|".join(map(alone, sorted(acceptable, key=len, reverse=True)))
    found = re.findall(either, text)
    return found[-1] if found else None


def alone(answer: str) -> str:
    """The pattern of an answer that is no part of a longer word.

    A number is no part of another number, range, fraction or time either: -2, 2.5, .2, 1-2, 2/3 and 2:30 are not 2.
    A bullet before it, as in `- 2`, is none of these.
    """
    if answer.isdecimal():
        before = rf"(?<![\w\-\u2212])(?<!\d[{JOINS}])(?<!^\.)(?<![\s=(]\.)"
        return rf"{before}{re.escape(answer)}(?!\w)(?![{JOINS}]\d)"
    return rf"(?<!\w){re.escape(answer)}(?!\w)"
