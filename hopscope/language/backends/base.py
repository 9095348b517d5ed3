"""What every backend offers: the log-likelihood of given continuations, and sampled text.

A backend is a model behind one way to reach it: in this process, over HTTP, or one whose answers are known. Errors
are never answers: what cannot be reached raises `Unreachable`, what a server cannot do raises BadInput.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from hopscope.language.layouts.base import Rendered

#: Number formats of a model in this process.
DTYPES = ("float32", "bfloat16", "float16")


class Unreachable(RuntimeError):
    """The model did not answer within the retries that were allowed; what was answered so far is kept."""


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


class Backend(ABC):
    """A model that can be asked. Questions are independent of each other: batching changes speed, never a number."""

    #: What is shown in tables: `smollm2`, `gpt-4o`, …
    model: str
    #: How many requests are best handed over at once.
    batch: int = 16

    @property
    @abstractmethod
    def identity(self) -> dict[str, str | int]:
        """All that an answer may depend on beside the request: weights' hash or endpoint, versions, dtype, threads."""

    @property
    @abstractmethod
    def has_chat_template(self) -> bool:
        """Whether the `chat` layout can be asked."""

    @abstractmethod
    def log_likelihoods(self, requests: Sequence[Rendered]) -> list[list[float]]:
        """For each request log p (nats) of each of its `choices` as continuation, all its tokens together.

        Raises BadInput where the backend cannot score, Unreachable where it does not answer.
        """

    @abstractmethod
    def generate(self, requests: Sequence[Rendered], sampling: Sequence[Sampling]) -> list[str]:
        """One completion per request, without the prompt, cut before its first stop text.

        Raises Unreachable where the model does not answer.
        """

    def close(self) -> None:
        """Let go of the model."""
        return
