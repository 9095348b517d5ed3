"""What the protocols share that put a question otherwise, and judge its answer by another protocol's rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hopscope.core import catalogue
from hopscope.core.settings import setting
from hopscope.formulations.base import Question, shifted
from hopscope.language.protocols.base import Protocol, Rule


@dataclass(frozen=True)
class Otherwise(Protocol):
    """Only the text differs from what `by` asks, so that the two can be compared question by question."""

    by: str = setting("greedy_lenient", "protocol by which answers are asked for and judged")

    @cached_property
    def rule(self) -> Rule:  # type: ignore[override]
        found: Rule = catalogue.chosen("language.protocols", self.by).rule
        return found

    def given(self, **settings: Any) -> Protocol:
        return self.but(by=str(self.rule.given(**settings)))


def asked_above(question: Question, ask: str) -> Question:
    """A question with another closing line, which begins as its own does.

    A text that is continued, as in the layout `code`, has that line above its stem: whatever stands between facts and
    answer is of use to a model only once it knows what is asked.
    """
    spans = question.ask_spans + shifted(question.stem_spans, len(ask) + 1)
    return replace(question, ask=ask, stem=f"{ask}\n{question.stem}", stem_spans=spans)
