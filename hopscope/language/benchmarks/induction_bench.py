"""InductionBench: find the rules of a function on strings from examples (Hua et al., 2025, arXiv:2502.15823)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import ClassVar

from hopscope.core.settings import BadInput, setting
from hopscope.formulations.base_draw import Draw
from hopscope.language.benchmarks.base import CHOICES, Benchmark, Exercise, Mark
from hopscope.language.benchmarks.base_local_functions import (
    all_rules,
    applied,
    as_text,
    drawn,
    read_rules,
    rules_in,
    strings,
)

LETTERS = "abcdefgh"
ASK = (
    "f copies letters from left to right, but for rules such as xy -> z: y right after x becomes z; or xy -> '': y "
    "right after x is left out. State the {rules} of f ({sides} of {letters} on the left), in one line with commas, "
    "without any other words."
)


@dataclass(frozen=True)
class InductionBench(Benchmark):
    """Input strictly local functions; all strings of up to k letters are shown.

    ```
    f(a) = a
    f(b) = b
    f(aa) = aa
    f(ab) = aa         ab -> a
    f(ba) = ba
    f(bb) = bb
    f copies letters … State the 1 rule of f (2 of a, b on the left), in one line with commas, without any other words.
    ```

    As in the paper, a rule is a suffix of the input read so far and the output for its last letter; at least one rule
    has k letters. Measures are the paper's: the share of the function's rules that are stated (recall), the share of
    stated rules that are the function's (precision), and whether the stated rules give the outputs of all examples
    (compatibility). `exact` is 1 if all three are.

    With `labels=shuffled`, right sides are permuted among examples with left sides of the same length, and the rules
    stay the same. An answer that ignores the examples scores the same.
    """

    MEASURES: ClassVar[tuple[str, ...]] = ("recall", "precision", "compatibility", "exact")

    k: int = setting(2, "most letters of a rule, k (paper: 2 to 4)", flag="k", low=2, high=4)
    n_letters: int = setting(5, "letters of the alphabet (paper: 5 to 8)", low=2, high=len(LETTERS))
    n_rules: int = setting(3, "rules of a function (paper: 3 to 5)", low=1, high=16)
    labels: str = setting("true", "examples as they are, or with right sides shuffled", choices=("true", "shuffled"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_rules > self.n_letters**2:
            raise BadInput(
                f"{self.n_letters} letters have room for {self.n_letters**2} rules; got {self.n_rules}, ask for fewer"
            )

    @property
    def letters(self) -> str:
        """The alphabet."""
        return LETTERS[: self.n_letters]

    def floors(self, exercise: Exercise | None = None) -> dict[str, float]:
        """Closed forms, which are the same for every exercise."""
        rules = len(all_rules(self.letters, self.k))
        whole = 1 / comb(rules, self.n_rules)
        share = self.n_rules / rules
        return {"recall": share, "precision": share, "compatibility": whole, "exact": whole}

    def question(self, seed: int, index: int) -> Exercise:
        function = {name: value for name, value in self.identifying().items() if name != "labels"}
        draw = Draw(self.name(), function, seed, index)
        true = drawn(draw, self.letters, self.k, self.n_rules)
        sets = [as_text(true)]
        while len(sets) < CHOICES:
            other = as_text(drawn(draw, self.letters, self.k, self.n_rules))
            sets += [other] if other not in sets else []
        answers = (sets[0], [sets[i] for i in draw.permutation(CHOICES)])
        return self.exercise(seed, index, self.shown(true, seed, index), self.ask, "Rules of f:", answers)

    @property
    def ask(self) -> str:
        """The closing line."""
        rules = f"{self.n_rules} rule{'s' if self.n_rules > 1 else ''}"
        sides = "2" if self.k == 2 else f"2 to {self.k}"
        return ASK.format(rules=rules, sides=sides, letters=", ".join(self.letters))

    def shown(self, rules: dict[str, str], seed: int, index: int) -> list[str]:
        """The examples, the shortest first."""
        given = strings(self.letters, self.k)
        written = [applied(rules, string) for string in given]
        if self.labels == "shuffled":
            written = shuffled(given, written, Draw(f"{self.name()} labels", self.identifying(), seed, index))
        return [f"f({string}) = {said}" for string, said in zip(given, written, strict=True)]

    def guess(self, exercise: Exercise, number: int) -> str:
        """`n_rules` different rules, drawn uniformly."""
        draw, rules = Draw("guess", self.identifying(), number, exercise.index), all_rules(self.letters, self.k)
        some: dict[int, None] = {}
        while len(some) < self.n_rules:
            some[draw.below(len(rules))] = None
        return ", ".join(as_text(dict([rules[number]])) for number in some)

    def mark(self, exercise: Exercise, text: str, lenient: bool) -> Mark:
        stated = (rules_in if lenient else read_rules)(text, self.letters, self.k)
        right = read_rules(exercise.answer, self.letters, self.k)
        if not stated or right is None:
            return self.malformed()
        hits, given = len(set(stated) & set(right)), strings(self.letters, self.k)
        said = dict(reversed(stated))  # of two rules for one suffix the first counts
        true = dict(right)
        measures = {
            "recall": hits / len(right),
            "precision": hits / len(stated),
            "compatibility": float(all(applied(said, string) == applied(true, string) for string in given)),
            "exact": float(set(stated) == set(right)),
        }
        return Mark(True, measures)


def shuffled(given: Sequence[str], written: Sequence[str], draw: Draw) -> list[str]:
    """The outputs, permuted among strings of the same length.

    Raises:
        BadInput: there are more than 200 strings of a length.
    """
    longest = max(map(len, given))
    if sum(len(one) == longest for one in given) > 200:
        raise BadInput("labels can be shuffled among 200 strings of a length; ask for fewer letters or a smaller k")
    permuted: list[str] = []
    for length in range(1, longest + 1):
        group = [said for string, said in zip(given, written, strict=True) if len(string) == length]
        permuted += [group[i] for i in draw.permutation(len(group))]
    return permuted
