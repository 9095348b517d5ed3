"""The paper's prompt as a user's message, in the model's own chat template (Musat, ICLR 2025, appendix A)."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.formulations.base import Question, Questions
from hopscope.language.layouts.base import Layout, Rendered


@dataclass(frozen=True)
class Chat(Layout):
    """The assistant's reply is the answer. It may have several lines, so there is no stop text."""

    def render(self, formulation: Questions, question: Question) -> Rendered:
        return Rendered(question.prompt, True, question.acceptable, question.spans, stop=())
