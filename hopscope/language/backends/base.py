"""What every backend offers: the log-likelihood of given continuations, and sampled text.

A backend runs a model in this process, reaches one over HTTP, or is a mock model with known answers. Errors never count
as answers: `Unreachable` is raised if a model does not answer, BadInput if it cannot do what is asked.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from hopscope.formulations.base import Questions
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.language.turns import Completion

#: Number formats of a model in this process.
DTYPES = ("float32", "bfloat16", "float16")


class Unreachable(RuntimeError):
    """The model did not answer within the allowed retries; earlier answers are kept."""


@dataclass(frozen=True)
class Sampling:
    """How text is generated.

    Attributes:
        temperature: 0 is greedy.
        max_tokens: the most tokens of a completion.
        seed: of this completion; the same seed gives the same text if the backend supports seeds.
    """

    temperature: float
    max_tokens: int
    seed: int


#: The least share of an answer's probability that remains after subtracting longer answers; rounding may make it
#: negative.
LEAST = 1e-9


def given_whole(scores: Sequence[float], answers: Sequence[Sequence[Any]]) -> list[float]:
    """Log-likelihoods (nats) of complete answers: that a text starts with this answer, and with no longer one of them.

    `1` is a prefix of `10`, so the probability of the token `1` includes that of `10`. The events here exclude each
    other, so their probabilities sum to at most 1.

    Args:
        scores: log p of each answer's tokens.
        answers: each answer's tokens, or its characters.

    >>> whole = given_whole([log(0.9), log(0.6), log(0.1)], ["1", "10", "2"])
    >>> print(*(f"{exp(score):.1f}" for score in whole))
    0.3 0.6 0.1
    """
    longer = [{j for j, o in enumerate(answers) if len(o) > len(a) and o[: len(a)] == a} for a in answers]
    nearest = [those - {k for j in those for k in longer[j]} for those in longer]
    left = [1 - sum(exp(scores[j] - scores[i]) for j in those) for i, those in enumerate(nearest)]
    return [
        score + log(max(share, LEAST)) if those else score
        for score, share, those in zip(scores, left, nearest, strict=True)
    ]


#: An estimate of a token: up to four letters, a digit, a sign or a line end, together with the blanks before it.
PIECE = re.compile(r"[^\W\d_]{1,4}|\d|[^\w\s]|\n")
AROUND = 12  # tokens of a chat template


class Backend(ABC):
    """A model that answers requests. Requests are independent: batching affects the speed, never the results."""

    #: The name in tables: `smollm2`, `gpt-4o`, …
    model: str
    #: The preferred number of requests per call.
    batch: int = 16
    #: The context length in tokens; None if it is not known.
    context: int | None = None

    @property
    @abstractmethod
    def identity(self) -> dict[str, str | int]:
        """Everything besides the request that an answer depends on: weights' hash or endpoint, versions, dtype …"""

    @property
    @abstractmethod
    def has_chat_template(self) -> bool:
        """Whether the `chat` layout can be used."""

    @abstractmethod
    def log_likelihoods(self, requests: Sequence[Rendered]) -> list[list[float]]:
        """For each request, the log-likelihood (nats) of each of its `choices` as a complete continuation.

        It is summed over all tokens of the choice; `given_whole` treats choices that are prefixes of others.

        Raises:
            BadInput: the backend cannot score, or a request is too long.
            Unreachable: the model did not answer.
        """

    @abstractmethod
    def generate(self, requests: Sequence[Rendered], sampling: Sequence[Sampling]) -> list[Completion]:
        """One completion per request, without the prompt, cut before its first stop text.

        Raises:
            BadInput: a request is too long.
            Unreachable: the model did not answer.
        """

    def n_tokens(self, request: Rendered) -> int:
        """The number of tokens of a prompt; without a tokenizer an estimate from its characters."""
        return len(PIECE.findall(request.text)) + AROUND * request.chat

    def learn(self, questions: Questions, layout: Layout, seed: int, indices: Iterable[int]) -> None:  # noqa: B027
        """Register the questions that will be asked; only mock models need them."""

    def check_length(self, request: Rendered, max_tokens: int | None) -> None:  # noqa: B027
        """Raise BadInput if a request with its choices, or with `max_tokens` of text, is longer than `context`."""

    def close(self) -> None:  # noqa: B027
        """Release the model."""
