"""A greedy text, which must be an acceptable answer and nothing else; one full stop is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.formulations.base import Question
from hopscope.language.backends.base import Sampling
from hopscope.language.protocols.base import Answer, Judged, Rule, accepted, text_in


@dataclass(frozen=True)
class GreedyStrict(Rule):
    """Any other text counts as neither correct nor valid."""

    max_tokens: int = setting(32, "most tokens of an answer", low=1)

    def request(self) -> dict[str, Any]:
        return {"asks": "text", "temperature": 0.0, "max_tokens": self.max_tokens}

    def sampling(self, question: Question, attempt: int) -> Sampling:
        return Sampling(0.0, self.max_tokens, 0)

    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        label = self.label(text_in(answers[0]), question.acceptable)
        return Judged(question.index, label, label == question.answer, 1, int(label is not None))

    def label(self, text: str, acceptable: Sequence[str]) -> str | None:
        """The acceptable answer that a text gives; None if it gives none."""
        return accepted(text, acceptable)
