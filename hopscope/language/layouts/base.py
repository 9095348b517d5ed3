"""The interface of layouts: the prompt of a question, and its answers as continuations.

The accuracy of one model on the same questions can be 0 % or 62 %, depending on layout and scoring (docs/language.md).
So the layout is a separate choice, with a file for each, and part of every record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from hopscope.core.settings import BadInput, Variant
from hopscope.formulations.base import Question, Questions, Span


@dataclass(frozen=True)
class Rendered:
    """The prompt of a question.

    Attributes:
        text: the text to be continued; with `chat`, the user's message.
        chat: whether to put `text` into the model's chat template.
        choices: the question's acceptable answers as continuations, in its order, with a leading space where one is
            needed (`" 1"` after `# output:`, `"1"` as an assistant's reply).
        spans: the question's spans, as positions in `text`.
        stop: a completion ends before the first of these texts.
    """

    text: str
    chat: bool
    choices: tuple[str, ...]
    spans: tuple[Span, ...]
    stop: tuple[str, ...] = ("\n",)


class Layout(Variant, ABC):
    """A way to put a question to a model. Subclasses are frozen dataclasses, one per file."""

    @abstractmethod
    def render(self, formulation: Questions, question: Question) -> Rendered:
        """The prompt of a question."""


def in_template(tokenizer: Any, said: str) -> str:
    """A user's message in a tokenizer's chat template, up to the reply. Raises BadInput if it has none."""
    if tokenizer.chat_template is None:
        raise BadInput("this model has no chat template; choose the layout raw, code or few_shot")
    turns = [{"role": "user", "content": said}]
    return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


def spaced(answers: tuple[str, ...]) -> tuple[str, ...]:
    """Answers with a leading space, as continuations of a line."""
    return tuple(f" {answer}" for answer in answers)
