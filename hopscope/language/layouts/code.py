"""The statements and a stem that the model continues with the answer, like a program and its output.

For equations and functions the stem is `print(s)` and the start of a comment with its output. For formulations in words
it is the start of a sentence. Small models answer best in this layout (docs/language.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.formulations.base import Question, Questions
from hopscope.language.layouts.base import Layout, Rendered, spaced


@dataclass(frozen=True)
class Code(Layout):
    """The answer is what follows on the line."""

    def render(self, formulation: Questions, question: Question) -> Rendered:
        text, spans = question.closed(question.stem, question.stem_spans)
        return Rendered(text, False, spaced(question.acceptable), spans)
