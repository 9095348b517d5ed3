"""What every backend offers: the log-likelihood of given continuations, and sampled text.

A backend is a model behind one way to reach it: in this process, over HTTP, or one whose answers are known. Errors
are never answers: what cannot be reached raises `Unreachable`, what a server cannot do raises BadInput.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

from hopscope.formulations.base import Questions
from hopscope.language.layouts.base import Layout, Rendered

#: Number formats of a model in this process.
DTYPES = ("float32", "bfloat16", "float16")


class Unreachable(RuntimeError):
    """The model did not answer within the allowed retries; earlier answers are kept."""


@dataclass(frozen=True)
class Sampling:
    """How text is generated.

    Attributes:
        temperature: 0 is greedy.
        max_tokens: after how many tokens a completion ends.
        seed: of this one completion; the same seed gives the same text where the backend allows it.
    """

    temperature: float
    max_tokens: int
    seed: int


#: The least share of an answer's probability that remains after subtracting longer answers; rounding may make it
#: negative.
LEAST = 1e-9


def given_whole(scores: Sequence[float], begins: Callable[[int, int], bool]) -> list[float]:
    """Log-likelihoods (nats) of complete answers: the text begins with the answer, and with no longer one of them.

    `1` is a prefix of `10`, so the probability of the token `1` includes that of `10`. Here the events exclude one
    another, so that probabilities sum to at most 1.

    Args:
        scores: log p of each answer's tokens.
        begins: whether one answer (by index) is a proper prefix of another, token by token.

    >>> whole = given_whole([log(0.9), log(0.6), log(0.1)], begins=lambda i, j: (i, j) == (0, 1))
    >>> print(*(f"{exp(score):.1f}" for score in whole))
    0.3 0.6 0.1
    """
    numbers = range(len(scores))
    longer = [{j for j in numbers if j != i and begins(i, j)} for i in numbers]
    nearest = [those - {k for j in those for k in longer[j]} for those in longer]
    left = [1 - sum(exp(scores[j] - scores[i]) for j in those) for i, those in enumerate(nearest)]
    return [
        score + log(max(share, LEAST)) if those else score
        for score, share, those in zip(scores, left, nearest, strict=True)
    ]


#: What takes about a token: up to four letters, a digit, a sign, an end of line. Blanks go with what follows.
PIECE = re.compile(r"[^\W\d_]{1,4}|\d|[^\w\s]|\n")
AROUND = 12  # tokens of a chat template


class Backend(ABC):
    """A model that answers requests. Requests are independent: batching changes the speed, never a number."""

    #: What is shown in tables: `smollm2`, `gpt-4o`, …
    model: str
    #: How many requests are best handed over at once.
    batch: int = 16
    #: How many tokens it reads; None where that is not known beforehand.
    context: int | None = None

    @property
    @abstractmethod
    def identity(self) -> dict[str, str | int]:
        """All that an answer depends on besides the request: hash of weights or endpoint, versions, dtype, threads."""

    @property
    @abstractmethod
    def has_chat_template(self) -> bool:
        """Whether the `chat` layout can be used."""

    @abstractmethod
    def log_likelihoods(self, requests: Sequence[Rendered]) -> list[list[float]]:
        """For each request log p (nats) of each of its `choices` as continuation, all its tokens together, given whole.

        Of choices that begin others see `given_whole`. Raises BadInput where the backend cannot score, Unreachable
        where it does not answer.
        """

    @abstractmethod
    def generate(self, requests: Sequence[Rendered], sampling: Sequence[Sampling]) -> list[str]:
        """One completion per request, without the prompt, cut before its first stop text.

        A `hopscope.language.turns.Completion` says more of how it came about than a plain text.

        Raises Unreachable where the model does not answer.
        """

    def n_tokens(self, request: Rendered) -> int:
        """How many tokens it would read; without a tokenizer about so many, by characters."""
        return len(PIECE.findall(request.text)) + AROUND * request.chat

    def learn(self, questions: Questions, layout: Layout, seed: int, indices: Iterable[int]) -> None:
        """Be told what will be asked; of use to models of known answer alone."""
        return

    def check_length(self, request: Rendered, max_tokens: int | None) -> None:
        """Raise BadInput where a request, with its choices or `max_tokens` of text, is longer than `context`."""
        return

    def close(self) -> None:
        """Release the model."""
        return
