"""The most likely of the acceptable answers by the model's own probabilities; nothing is generated.

The score of an answer is log p(answer | question), summed over all its tokens (nats). The prior-corrected choice uses
log p(answer | question) − log p(answer | question without statements). A small model that always says 1 is right as
often as a guess; the correction shows whether the statements have any effect (Holtzman et al., 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

from hopscope.formulations.base import Question
from hopscope.language.protocols.base import Answer, Judged, Rule

#: The sum of probabilities may exceed 1 by this much, because servers round those of tokens.
SLACK = 0.01


@dataclass(frozen=True)
class LogLikelihood(Rule):
    """The argmax over the acceptable answers."""

    scores = True

    def request(self) -> dict[str, Any]:
        return {"asks": "log-likelihoods"}

    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        scores, blank = answers[0]["scores"], answers[0]["blank"]
        label = question.acceptable[best(scores)]
        gains = [score - prior if isfinite(prior) else score for score, prior in zip(scores, blank, strict=True)]
        mass = min(1.0, sum(exp(score) for score in scores))
        corrected = question.acceptable[best(gains)]
        return Judged(question.index, label, label == question.answer, 1, 1, mass=mass, corrected=corrected)


def flaw_of(scores: Sequence[float]) -> str:
    """Why scores cannot be log-likelihoods of answers, which exclude each other; empty if they can be."""
    if not all(map(isfinite, scores)):
        return f"are no finite numbers: {list(scores)}"
    mass = sum(map(exp, scores))
    return f"have probabilities that sum to {mass:.3g}, and no more than 1 can be right" if mass > 1 + SLACK else ""


def best(scores: Sequence[float]) -> int:
    """The index of the highest score; of equal ones the first."""
    return max(range(len(scores)), key=lambda i: (scores[i], -i))
