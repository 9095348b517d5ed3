"""The statements and a stem that a model continues with the answer, as it would a program and its output.

For equations and functions the stem is `print(s)` and the beginning of a comment that tells its output; for those in
words it is the beginning of a sentence. Small models answer best so (specs/ecosystem.md, 1.4).
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
