"""Numbers that mean nothing between the question and its answer: more tokens in which a model may compute.

Greenblatt (January 2026, github.com/rgreenblatt/multi_hop, eval_multi_hop.py) puts the numbers 1 to 300 behind the
question and says what they are for. On facts of the world that lifts Gemini 3 Pro from 18 to 34 % at three hops
(write_up.md there).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hopscope.core.settings import setting
from hopscope.formulations.base import Question, Questions, shifted
from hopscope.language.protocols.base import Otherwise, Put


@dataclass(frozen=True)
class FillerTokens(Otherwise):
    """Solved questions, in the layout `few_shot`, have the same filler before their answers."""

    n_numbers: int = setting(300, "to which the filler counts, from 1 (Greenblatt: 300)", low=1, high=10_000)

    def put(self, questions: Questions) -> Questions:
        return Put(questions, self.filled)

    def filled(self, question: Question) -> Question:
        """The question with the filler below its closing line.

        A text that is continued, as in the layout `code`, has both above its stem: tokens are of use to a model only
        once it knows what is asked.
        """
        told = (
            f"Below this line are filler tokens, 1 to {self.n_numbers}: room to work on the problem before you answer."
        )
        filler = " ".join(map(str, range(1, self.n_numbers + 1)))
        ask = f"{question.ask} {told}\nFiller: {filler}"
        spans = question.ask_spans + shifted(question.stem_spans, len(ask) + 1)
        return replace(question, ask=ask, stem=f"{ask}\n{question.stem}", stem_spans=spans)
