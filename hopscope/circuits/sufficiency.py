"""Sufficiency: whether a set of units does what the model does, by hand and live; and the minimal sets that do.

Most sets have a loss far above the threshold, so a few sequences reject them. The closer the loss is to the threshold,
the more sequences are drawn (a sequential test; Wald, 1945; `sequential`). A set suffices if its loss is below the
threshold, and its accuracy above the task's, both by more than their errors.

A superset of a sufficient set need not suffice, because heads can cancel each other. So whether a set suffices is never
inferred from another set.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.exam import Exam, Units, names, said
from hopscope.circuits.search import minimal
from hopscope.circuits.sequential import FIRST, SURE, Asked, Outcome, decide
from hopscope.circuits.units import Unit, paths_of, row_of

STAGES = tuple(2**i for i in range(2, 15))  # numbers of sequences after which sets may be decided: 4 to 16,384 (ours)
LAST = 1024  # the stage at which the test ends, unless more are drawn for undecided sets (`look_closer`) (ours)
CLOSER = 4  # `look_closer` multiplies the number of sequences by this (ours)
FAR = 8.0  # times the threshold: a set is rejected at once if both of its first two losses are this high (ours)
ACCEPTS = 128  # least sequences to accept a set; a failure on 1 sequence in 20 is then missed 1 time in 700 (0.95^128)
FAIR = 1.96  # standard errors by which a set must be below the threshold to be accepted on the last sequences
SURER = 5.0  # standard errors to accept a set earlier, in place of SURE, once a report has rejected a circuit (ours)
EXHAUSTIVE = 12  # units: of a set of up to this size all subsets are tried (ours)
TOGETHER = 4096  # sets that are run together, which bounds the memory for their answers (ours)
MANY = 64  # minimal sets, after which no larger ones are looked for (ours)
REMOVALS = 3  # units: of a set of more than EXHAUSTIVE, all removals of up to this many are tried (ours)


class Sufficiency:
    """The joint test of sets of units; each set is tested once, on as many sequences as the decision takes.

    Attributes:
        outcomes: the outcomes so far, by test, set and the bounds that were asked (`Asked`).
        rejected: sets that a report rejected, and that no longer pass whatever the search's sequences say.
        drawn: the sequences of each stage, as far as they were drawn, in one or two steps.
        last: the total number of sequences at which the test ends, one of `STAGES`.
        sure: the standard errors that acceptance needs before the last sequences.
    """

    def __init__(self, exam: Exam):
        self.exam = exam
        self.outcomes: dict[tuple[str, Units, Asked], Outcome] = {}
        self.rejected: Collection[Units] = ()
        self.drawn = exam.joint
        self.last, self.sure = LAST, SURE

    @property
    def asked(self) -> Asked:
        """The bounds and margins that every set must keep now."""
        fair = FAIR if self.sure == SURE else SURE
        return Asked(self.exam.threshold, self.exam.accuracy, ACCEPTS, self.sure, self.sure, fair, self.far)

    def stages(self) -> Iterator[tuple[Evaluator, bool]]:
        """The sequences that each stage adds, drawn when first needed, each with whether they are the last.

        The test ends at the stage `last`, or earlier if the task has no further sequences to search on.
        """
        for i, (before, seen) in enumerate(itertools.pairwise((0, *STAGES))):
            if before == self.last:
                break
            if i == len(self.drawn):
                stage = self.exam.evaluator(f"joint {i}", seen - before)
                in_two = i == 0 and len(stage.batch) > FIRST  # the first of these two steps rejects most sets
                self.drawn.append([stage.part(slice(0, FIRST)), stage.part(slice(FIRST, None))] if in_two else [stage])
            if i + 1 == len(self.drawn) and not self.exam.task.has_more_to_search:
                self.last = seen
            *steps, end = self.drawn[i]
            yield from ((step, False) for step in steps)
            yield end, seen == self.last

    def look_closer(self) -> bool:
        """Test undecided sets anew, on up to `CLOSER` times as many sequences.

        Returns:
            Whether anything changes: False if no set is undecided, or if there are no further sequences.
        """
        if not self.undecided or self.last == STAGES[-1] or not self.exam.task.has_more_to_search:
            return False
        self.last = min(CLOSER * self.last, STAGES[-1])
        self.outcomes = {about: outcome for about, outcome in self.outcomes.items() if not outcome.is_open}
        return True

    def reject(self, rejected: Collection[Units]) -> None:
        """Forbid sets that a report rejected, and test all others anew, with larger margins and on more sequences.

        When many sets are tried on the same sequences, some pass by chance.
        """
        self.last, self.sure = max(self.last, CLOSER * LAST), SURER
        self.rejected, self.outcomes = {*self.rejected, *rejected}, {}

    @property
    def sequences(self) -> int:
        """The number of sequences that were run, summed over all sets."""
        return round(sum(e.forwards * len(e.batch) for steps in self.drawn for e in steps))

    def ask(self, test: str, sets: Iterable[Units]) -> list[Outcome]:
        """The outcome of one of the exam's tests for each set; sets that were tested before are not run again."""
        asked, sets = self.asked, list(sets)
        new = [units for units in dict.fromkeys(sets) if (test, units, asked) not in self.outcomes]
        for begin in range(0, len(new), TOGETHER):
            some = new[begin : begin + TOGETHER]
            found = decide([*map(self.exam.tests[test], some)], self.stages(), asked)
            self.outcomes |= {(test, units, asked): outcome for units, outcome in zip(some, found, strict=True)}
        self.note(test, [(units, self.outcomes[test, units, asked]) for units in new])
        return [self.outcomes[test, units, asked] for units in sets]

    @property
    def undecided(self) -> set[Units]:
        """Sets that count as rejected only because the sequences did not decide."""
        return {units for (_, units, _), outcome in self.outcomes.items() if outcome.is_open}

    def __call__(self, units: Iterable[Unit]) -> bool:
        """Whether one set suffices."""
        return self.all_of([frozenset(units)])[0]

    def all_of(self, sets: Sequence[Units]) -> list[bool]:
        """Which of some sets suffice: live with their rows whole, live as they are, at averages, and by hand.

        A set that fails one test is not put to the next.
        """
        left = [units for units in dict.fromkeys(sets) if units not in self.rejected]
        for test in self.exam.tests:
            groups = [frozenset(map(row_of, units)) if test == "rows" else units for units in left]
            left = list(itertools.compress(left, self.passes(test, groups)))
        passed = {*left}
        return [units in passed for units in sets]

    def passes(self, test: str, sets: Iterable[Units]) -> list[bool]:
        """Which of some sets pass one of the tests."""
        return [outcome.passed for outcome in self.ask(test, sets)]

    def new_among(self, sets: Iterable[Units], known: Sequence[Units]) -> list[Units]:
        """The sets that suffice and contain no set that is known to suffice."""
        left = [units for units in dict.fromkeys(sets) if not any(one <= units for one in known)]
        return list(itertools.compress(left, self.all_of(left)))

    @property
    def far(self) -> float:
        """The loss that rejects a set at once if both of the first two sequences reach it.

        Infinite if losses may be negative, because a multiple of the threshold then means nothing.
        """
        bounded = self.exam.task.floor >= 0 and self.exam.threshold > 0
        return FAR * self.exam.threshold if bounded else math.inf

    def note(self, test: str, found: Sequence[tuple[Units, Outcome]]) -> None:
        """Write outcomes into the proof log; of the many sets that the first stage rejects, only the number."""
        close = [(units, outcome) for units, outcome in found if outcome.passed or outcome.loss.n > STAGES[0]]
        for units, outcome in close:
            self.exam.write("4 joint", names(units), test, outcome.loss, said(outcome.passed))
        if far := len(found) - len(close):
            self.exam.write("4 joint", f"{far} sets", test, None, "rejected", n=STAGES[0])

    # Minimal sets --------------------------------------------------------------------------------------------

    def minimal_sets(self, units: Collection[Unit]) -> list[Units]:
        """All minimal sufficient sets among a few units; every subset is tried, the smallest first."""
        ordered = sorted(units, key=str)
        found: list[Units] = []
        for size in range(len(ordered) + 1):
            found += self.new_among(map(frozenset, itertools.combinations(ordered, size)), found)
            if len(found) >= MANY:
                break
        return found

    def minimised(self, units: Units) -> tuple[list[Units], bool]:
        """The minimal subsets of a sufficient set, and whether these are all of them.

        More sequences are drawn as long as a part of one of them is undecided. A part that is undecided in the end
        counts as rejected, and stays in `undecided`.
        """
        found, found_all = self.parts(units)
        while self.open_parts(found) and self.look_closer():
            found, found_all = self.parts(units)
        return found, found_all

    def open_parts(self, sets: Iterable[Units]) -> list[Units]:
        """The undecided proper subsets of some sets: sets of their units, or of their rows."""
        every = [part for units in sets for part in (units, frozenset(map(row_of, units)))]
        return [one for one in self.undecided if any(one < units for units in every)]

    def parts(self, units: Units) -> tuple[list[Units], bool]:
        """The minimal sets in a sufficient set on the present sequences, and whether these are all of them.

        In a set of up to `EXHAUSTIVE` units every subset is tried. A larger set is first reduced, by QuickXplain and
        then by removals of up to `REMOVALS` units, until no such removal passes. Each reduction follows one smaller set
        of possibly several, so the sets that are found need not be all.
        """
        found_all = True
        while len(units) > EXHAUSTIVE:
            effect = lambda unit: (-self.exam.effects.get(row_of(unit), 0.0), self.exam.by_strength(unit))  # noqa: E731
            fewer: Units | None = minimal(sorted(units, key=effect), self)
            if fewer == units:
                fewer = self.without_some(units)
            if fewer is None:
                return [units], found_all
            units, found_all = fewer, False
        found = self.minimal_sets(units)
        return smallest_first(self.exam, found) or [units], found_all and len(found) < MANY

    def without_some(self, units: Units) -> Units | None:
        """A sufficient set that lacks up to `REMOVALS` of the units, as few as possible; None if there is none."""
        for size in range(1, REMOVALS + 1):
            sets = (units - set(removed) for removed in itertools.combinations(sorted(units, key=str), size))
            if passing := self.new_among(sets, ()):
                return passing[0]
        return None


def smallest_first(exam: Exam, sets: Iterable[Units]) -> list[Units]:
    """Sets in order of size, and of equal size those whose paths get the most attention first.

    Sets that contain another are left out. So are sets that name paths where another set keeps the same rows whole: if
    a row suffices whatever it attends to, no path of it is needed.
    """

    def attended(units: Units) -> float:
        return round(min((exam.data.strengths.get(path, 0.0) for path in paths_of(units)), default=0), 1)

    def is_vaguer(one: Units, other: Units) -> bool:
        return one != other and {*paths_of(one)} < other and {*map(row_of, one)} == {*map(row_of, other)}

    found = list(dict.fromkeys(sets))
    least = [chosen for chosen in found if not any(other < chosen or is_vaguer(other, chosen) for other in found)]
    return sorted(least, key=lambda chosen: (len(chosen), -attended(chosen), names(chosen)))
