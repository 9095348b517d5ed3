"""InductionBench's other two classes: rules look at what was written (Hua et al., 2025, arXiv:2502.15823)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hopscope.core.settings import setting
from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.base import Exercise, Mark
from hopscope.language.benchmarks.base_local_functions import rules_in
from hopscope.language.benchmarks.induction_bench import InductionBench, shuffled
from hopscope_studies.induction_bench.language.benchmarks.base_output_local import applied, is_shown, sample

MOST = 1_000_000  # exercises under a seed


@dataclass(frozen=True)
class InductionBenchOsl(InductionBench):
    """Output strictly local functions: L-OSL are read from the left, R-OSL from the right.

    ```
    f(ba) = ba
    f(bb) = ba         bb -> a
    f copies letters from left to right, but for rules such as xy -> z: y right after a written x becomes z; …
    ```

    The examples are a characteristic sample: the shortest input to every state, followed by every letter. For k = 2
    these are all strings of one and two letters. Functions with rules that no examples show are left out.

    With `side=right` the first letter of a rule's left side changes, and the others are written on its right, as in the
    paper. Functions, learners and guesses read rules and strings in the order of reading, where both sides are alike.
    """

    side: str = setting("left", "where reading begins", choices=("left", "right"))

    def read(self, string: str) -> str:
        """A string in the order of reading, or back in that of the page."""
        return string if self.side == "left" else string[::-1]

    def turned(self, text: str) -> str:
        """Rules in the order of reading, or back in that of the page."""
        return re.sub(r"[a-z]+(?=\s*(?:->|→))", lambda found: self.read(found[0]), text)

    def rules_of(self, text: str) -> dict[str, str]:
        """The rules in a text, in the order of reading; of two for one suffix the first counts."""
        return dict(reversed(rules_in(self.turned(text), self.letters, self.k)))

    def question(self, seed: int, index: int) -> Exercise:
        made = super().question(seed, index)
        if not is_shown(self.rules_of(self.turned(made.answer)), self.letters, self.k):
            return replace(self.question(seed, index + MOST), index=index)
        return replace(made, answer=self.turned(made.answer), acceptable=tuple(map(self.turned, made.acceptable)))

    @property
    def ask(self) -> str:
        """The closing line."""
        where = "y right after a written x" if self.side == "left" else "x right before a written y"
        said = super().ask.replace("y right after x", where)
        return said if self.side == "left" else said.replace("left to right", "right to left")

    def shown(self, rules: dict[str, str], seed: int, index: int) -> list[str]:
        """The examples, the shortest first."""
        examples = sample(rules, self.letters, self.k)
        given, written = list(examples), list(examples.values())
        if self.labels == "shuffled":
            written = shuffled(given, written, Draw(f"{self.name()} labels", self.identifying(), seed, index))
        pairs = [(self.read(string), self.read(said)) for string, said in zip(given, written, strict=True)]
        return [f"f({string}) = {said}" for string, said in sorted(pairs, key=lambda pair: (len(pair[0]), pair[0]))]

    def guess(self, exercise: Exercise, number: int) -> str:
        return self.turned(super().guess(exercise, number))

    def mark(self, exercise: Exercise, text: str, lenient: bool) -> Mark:
        as_read = replace(exercise, answer=self.turned(exercise.answer))
        mark = super().mark(as_read, self.turned(text), lenient)
        stated, examples = self.rules_of(text), sample(self.rules_of(exercise.answer), self.letters, self.k)
        agrees = mark.valid and all(applied(stated, string) == written for string, written in examples.items())
        return Mark(mark.valid, {**mark.measures, "compatibility": float(agrees)})
