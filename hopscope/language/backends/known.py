"""Mock models with known answers, which test scorers, runners and backends.

They look up a question by its prompt, so they get exactly the prompts of a real model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from math import log

from hopscope.core.settings import check_choice
from hopscope.formulations.base import Question, Questions
from hopscope.language.backends.base import Backend, Sampling, given_whole
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.language.turns import Completion, completion

BEHAVIOURS = {
    "oracle": "the right answer",
    "last_line": "the acceptable answer that occurs last in the statements",
    "first_value": "the acceptable answer that occurs first in the statements",
    "uniform": "a random acceptable answer, by the seed",
    "always_1": "always 1",
    "refuses": "a refusal",
    "chatty": "the right answer, in a sentence",
    "thinks": "the right answer, after thoughts that name the others",
    "ends": "the right answer, followed by an end-of-text token",
    "runs_on": "the right answer, and another question after the end of its turn",
}
SURE = 0.9  # probability of the answer that a mock model would give; the others share the rest
HESITANT = 1e-6  # probability of each answer for a mock model that refuses


class Known(Backend):
    """A mock model with one of the behaviours above.

    Args:
        behaviour: one of `BEHAVIOURS`. Raises BadInput for another.
        batch: the preferred number of requests per call.
    """

    def __init__(self, behaviour: str, batch: int = 64):
        check_choice("a known model", behaviour, BEHAVIOURS)
        self.behaviour, self.batch = behaviour, batch
        self.model = f"known:{behaviour}"
        self.questions: dict[str, Question] = {}

    identity = {"known": "its answers follow from the question"}  # noqa: RUF012
    has_chat_template = True

    def learn(self, formulation: Questions, layout: Layout, seed: int, indices: Iterable[int]) -> None:
        """Register questions by the text of their prompts; without its statements a question is not known."""
        for index in indices:
            question = formulation.question(seed, index)
            self.questions[layout.render(formulation, question).text] = question

    def answer(self, text: str, seed: int) -> str:
        """Its answer to a prompt."""
        question = self.questions.get(text)
        if question is None:
            return "I have never seen this question."
        said = {
            "oracle": question.answer,
            "always_1": "1",
            "refuses": "I cannot say.",
            "chatty": f"Let me see: it must be {question.answer}, I think.",
            "thinks": f"<think>\n{' or '.join(question.acceptable)}?\n</think>\n\n{question.answer}",
            "ends": f"{question.answer}</s>",
            "runs_on": f"{question.answer}<|im_end|>\n<|im_start|>user\nAnd {question.acceptable[0]}?",
        }
        if self.behaviour in said:
            return said[self.behaviour]
        if self.behaviour == "uniform":
            digest = hashlib.sha256(f"{text}/{seed}".encode()).digest()
            return question.guess(int.from_bytes(digest[:8], "big"))
        either = "|".join(sorted(map(re.escape, question.acceptable), key=len, reverse=True))
        named = re.findall(rf"(?<!\w)(?:{either})(?!\w)", question.facts)
        return str(named[-1 if self.behaviour == "last_line" else 0]) if named else "None of them stands there."

    def log_likelihoods(self, requests: Sequence[Rendered]) -> list[list[float]]:
        return [self.scores(request) for request in requests]

    def scores(self, request: Rendered) -> list[float]:
        """Log-likelihoods: high for the answer that it would give, and equally low for the others."""
        question, bare = self.questions.get(request.text), [choice.strip() for choice in request.choices]
        knows = self.behaviour in ("chatty", "thinks", "ends", "runs_on")
        said = question.answer if question and knows else self.answer(request.text, 0)
        if said not in bare:
            return [log(HESITANT)] * len(bare)
        rest = (1 - SURE) / max(1, len(bare) - 1)
        sure = {answer: SURE if answer == said else rest for answer in bare}
        # As for a real model, the probability of `1` includes that of `10`.
        return given_whole(
            [log(sum(p for other, p in sure.items() if other.startswith(answer))) for answer in bare], bare
        )

    def generate(self, requests: Sequence[Rendered], sampling: Sequence[Sampling]) -> list[Completion]:
        pairs = zip(requests, sampling, strict=True)
        return [completion(self.answer(request.text, how.seed), stop=request.stop) for request, how in pairs]
