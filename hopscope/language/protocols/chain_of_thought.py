"""A chain of thought before the answer; never scored together with direct answers.

An instruction to think step by step replaces that to answer directly. The answer is the last acceptable one in the line
after the last `Answer:`, or in the last line of a text without `Answer:`. A text that the token limit cut off is
neither right nor wrong: it is counted as cut off, and as unanswered. Records keep the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hopscope.core.settings import setting
from hopscope.formulations.base import Question, Questions
from hopscope.language.protocols.base import Answer, Judged, Put, last_named
from hopscope.language.protocols.greedy_strict import GreedyStrict
from hopscope.language.turns import cut_off

INSTRUCTION = 'Think step by step. End with a line that says "Answer:" and the answer alone.'
MARK = r"answer\W*:"
#: A pattern whose one group is the line with the answer; exported tasks for lm-eval have it, too.
LAST_LINE = rf"(?is)\A(?:.*{MARK}\s*|(?!.*{MARK})(?:.*\n)?\s*(?=[^\n]*\s*\Z))([^\n]*\S)"


@dataclass(frozen=True)
class ChainOfThought(GreedyStrict):
    """A greedy text with thoughts and the answer."""

    direct = False
    lenient = True
    max_tokens: int = setting(1024, "most tokens of thoughts and answer together", low=1)

    def put(self, questions: Questions) -> Questions:
        return Put(questions, thinking)

    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        return replace(super().judge(question, answers), run_out=cut_off(answers[0]))

    def label(self, text: str, acceptable: Sequence[str]) -> str | None:
        line = re.search(LAST_LINE, text)
        return last_named(line[1], acceptable) if line else None


def thinking(question: Question) -> Question:
    """The question with an instruction to think step by step instead of that to answer directly."""
    asked, _, _ = question.ask.partition("?")
    return replace(question, ask=f"{asked}? {INSTRUCTION}")
