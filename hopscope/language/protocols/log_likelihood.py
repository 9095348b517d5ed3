"""The likeliest of the acceptable answers, by the model's own probabilities; nothing is generated.

Every answer's score is log p(answer | question), all its tokens together (nats). Beside it stands the prior-corrected
choice, by log p(answer | question) − log p(answer | question without statements): a small model that says 1 whatever is
asked is right as often as any guess, and this shows whether the statements move it at all (Holtzman et al., 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

from hopscope.formulations.base import Question
from hopscope.language.protocols.base import Answer, Judged, Protocol


@dataclass(frozen=True)
class LogLikelihood(Protocol):
    """Argmax over the acceptable answers."""

    scores = True

    def request(self) -> dict[str, Any]:
        return {"asks": "log-likelihoods"}

    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        scores, blank = answers[0]["scores"], answers[0]["blank"]
        label = question.acceptable[best(scores)]
        gains = [score - prior if isfinite(prior) else score for score, prior in zip(scores, blank, strict=True)]
        mass = sum(exp(score) for score in scores)
        corrected = question.acceptable[best(gains)]
        return Judged(question.index, label, label == question.answer, 1, 1, mass=mass, corrected=corrected)


def best(scores: Sequence[float]) -> int:
    """Which is greatest; of equal ones the first."""
    return max(range(len(scores)), key=lambda i: (scores[i], -i))
