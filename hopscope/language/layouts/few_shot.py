"""The layout `code` after some solved questions of the same formulation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hopscope.core.settings import setting
from hopscope.formulations.base import Question, Questions, shifted
from hopscope.language.layouts.base import Layout, Rendered
from hopscope.language.layouts.code import Code

#: Solved questions have the question's seed plus this, so that no question is both asked and shown.
ELSEWHERE = 1_000_003


@dataclass(frozen=True)
class FewShot(Layout):
    """Every question has its own solved questions before it."""

    n_shots: int = setting(4, "solved questions before the one that is asked", low=1, high=64)

    def render(self, formulation: Questions, question: Question) -> Rendered:
        solved, asked = self.solved(formulation, question), Code().render(formulation, question)
        return replace(asked, text=solved + asked.text, spans=shifted(asked.spans, len(solved)))

    def solved(self, formulation: Questions, question: Question) -> str:
        """The solved questions, each with its answer and an empty line after it."""
        first, seed = question.index * self.n_shots, question.seed + ELSEWHERE
        shots = (formulation.question(seed, first + number) for number in range(self.n_shots))
        return "".join(f"{Code().render(formulation, shot).text} {shot.answer}\n\n" for shot in shots)
