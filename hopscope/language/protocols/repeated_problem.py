"""Facts and question several times: when the model reads the facts again, it already knows the question.

Greenblatt (January 2026, github.com/rgreenblatt/multi_hop, eval_multi_hop.py) repeats the problem up to ten times, most
often five, and numbers the copies. It helps as much as filler tokens (write_up.md there).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hopscope.core.settings import setting
from hopscope.formulations.base import Question, shifted
from hopscope.language.protocols.base import Otherwise


@dataclass(frozen=True)
class RepeatedProblem(Otherwise):
    """All copies but the last are the paper's prompt; the last one has the layout's form."""

    n_times: int = setting(5, "copies of the problem (Greenblatt: 5)", low=2, high=100)

    def changed(self, question: Question) -> Question:
        """The question with copies of it before its facts; its spans are those of the last copy."""
        above = [line for k in range(2, self.n_times + 1) for line in (question.prompt, "", f"(repeat #{k})")]
        spans = shifted(question.statement_spans, len("\n".join(above)) + 1)
        return replace(question, statements=(*above, *question.statements), statement_spans=spans)
