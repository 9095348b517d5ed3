"""Thoughts in words before the answer, which is read at their end; never scored together with direct answers.

The instruction to answer directly gives way to one to think step by step. The answer is the last acceptable one in the
line behind the last `Answer:`; in a text without `Answer:` in its last line. A text that the limit of tokens cut off is
neither right nor wrong: it is counted as cut off, and as unanswered. Records hold the whole text, thoughts and answer.
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
#: The line that holds the answer, as a pattern's one group; lm-eval finds it by the same one.
LAST_LINE = rf"(?is)\A(?:.*{MARK}\s*|(?!.*{MARK})(?:.*\n)?\s*(?=[^\n]*\s*\Z))([^\n]*\S)"


@dataclass(frozen=True)
class ChainOfThought(GreedyStrict):
    """The likeliest text, thoughts and all."""

    direct = False
    max_tokens: int = setting(1024, "after how many tokens thoughts and answer are cut off", low=1)

    def put(self, questions: Questions) -> Questions:
        return Put(questions, thinking)

    def judge(self, question: Question, answers: Sequence[Answer]) -> Judged:
        return replace(super().judge(question, answers), run_out=cut_off(answers[0]))

    def label(self, text: str, acceptable: Sequence[str]) -> str | None:
        line = re.search(LAST_LINE, text)
        return last_named(line[1], acceptable) if line else None


def thinking(question: Question) -> Question:
    """The question with an instruction to think in place of that to answer directly."""
    asked, _, _ = question.ask.partition("?")
    return replace(question, ask=f"{asked}? {INSTRUCTION}")
