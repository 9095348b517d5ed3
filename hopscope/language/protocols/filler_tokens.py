"""Meaningless numbers between the question and its answer: more tokens in which a model may compute.

Greenblatt (January 2026, github.com/rgreenblatt/multi_hop, eval_multi_hop.py) puts the numbers 1 to 300 after the
question and explains their purpose. This raises the accuracy of Gemini 3 Pro on three hops of world knowledge from 18
to 34 % (write_up.md there).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hopscope.core.settings import setting
from hopscope.formulations.base import Question, shifted
from hopscope.language.protocols.base import Otherwise


@dataclass(frozen=True)
class FillerTokens(Otherwise):
    """Filler before the answer, also in the solved questions of the layout `few_shot`."""

    n_numbers: int = setting(300, "last number of the filler, which starts at 1 (Greenblatt: 300)", low=1, high=10_000)

    def changed(self, question: Question) -> Question:
        """The question with the filler below its closing line.

        In layouts such as `code`, where the text is continued, closing line and filler come before the stem, because
        filler can only help once the model knows the question.
        """
        purpose = (
            f"Below this line are filler tokens, 1 to {self.n_numbers}: room to work on the problem before you answer."
        )
        filler = " ".join(map(str, range(1, self.n_numbers + 1)))
        ask = f"{question.ask} {purpose}\nFiller: {filler}"
        spans = question.ask_spans + shifted(question.stem_spans, len(ask) + 1)
        return replace(question, ask=ask, stem=f"{ask}\n{question.stem}", stem_spans=spans)
