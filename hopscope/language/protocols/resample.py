"""The paper's protocol: sample until the text is an acceptable answer and nothing else (Musat, ICLR 2025, section 4).

The paper states no limit on tries. A small model may never answer in the requested form, so there is one here.
Questions that run out of tries are a separate class, neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import setting
from hopscope.formulations.base import Question
from hopscope.language.backends.base import Sampling
from hopscope.language.protocols.base import Answer, Judged, Rule, accepted, sampling_seed, text_in


@dataclass(frozen=True)
class Resample(Rule):
    """Every try has its own seed, so that a resumed evaluation continues with the same samples."""

    max_tries: int = setting(10, "most tries of a question (the paper has no limit)", low=1)
    temperature: float = setting(1.0, "sampling temperature", low=0)
    max_tokens: int = setting(32, "most tokens of an answer", low=1)

    def request(self) -> dict[str, Any]:
        return {"asks": "text", "temperature": self.temperature, "max_tokens": self.max_tokens}

    def sampling(self, question: Question, attempt: int) -> Sampling:
        seed = sampling_seed(question.seed, question.index, attempt)
        return Sampling(self.temperature, self.max_tokens, seed)

    def wants_more(self, question: Question, answers: Sequence[Answer]) -> bool:
        given = answers[: self.max_tries]
        return len(given) < self.max_tries and not any(accepted(text_in(a), question.acceptable) for a in given)

    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        labels = [accepted(text_in(answer), question.acceptable) for answer in answers[: self.max_tries]]
        label = next((label for label in labels if label is not None), None)
        tries = labels.index(label) + 1 if label is not None else len(labels)
        return Judged(
            question.index, label, label == question.answer, tries, int(label is not None), run_out=label is None
        )
