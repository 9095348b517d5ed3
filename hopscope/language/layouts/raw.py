"""The paper's prompt as a text to be continued, followed by `Answer:`, for models without a chat template."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.formulations.base import Question, Questions
from hopscope.language.layouts.base import Layout, Rendered, spaced

LEAD = "\nAnswer:"


@dataclass(frozen=True)
class Raw(Layout):
    """The answer is what follows on the line."""

    def render(self, formulation: Questions, question: Question) -> Rendered:
        return Rendered(question.prompt + LEAD, False, spaced(question.acceptable), question.spans)
