"""Sufficiency: whether a set of paths does what the model does, by hand and live; and the minimal sets that do.

Losses of many sets are near the threshold of none, so a few sequences reject most; the closer a set comes the more
are drawn (a sequential test; Wald, 1945). To be sufficient a set must be below the threshold by more than its error,
and as accurate as the task asks, by more than that error, too.
Nothing is assumed about supersets: heads can undo each other, so that less does what more does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from hopscope.circuits.evaluator import Evaluator
from hopscope.circuits.exam import Exam, Units, names, said
from hopscope.circuits.search import minimal
from hopscope.circuits.sequential import FEW, SURE, Asked, Outcome, decide
from hopscope.circuits.units import Unit, paths_of, row_of

STAGES = tuple(2**i for i in range(2, 15))  # sequences in all, after which sets are decided: 4 to 16,384 (ours)
LAST = 1024  # but for a closer look, where nothing passes, or what is undecided is smaller than what does
CLOSER = 4  # times as many sequences are seen then
FAR = 8.0  # times the threshold: a set that loses so much in each of the first few is rejected (ours)
ACCEPTS = 128  # from so many on: what fails in one of twenty is missed by one set in seven hundred
FAIR = 1.96  # standard errors below the threshold, to be accepted in the end
SURER = 5.0  # in place of SURE, to be accepted before, once a report has rejected what was; in the end SURE is asked
EXHAUSTIVE = 12  # paths: of circuits up to this size all subsets are tried
TOGETHER = 4096  # sets, whose answers are held at a time (ours)
MANY = 64  # minimal sets, after which no larger ones are looked for (ours)
REMOVALS = 3  # of larger ones, all removals of up to so many


class Sufficiency:
    """The joint test of sets of units: each is asked once, on as many sequences as it takes.

    Attributes:
        outcomes: of the sets that were asked, each by the test and by what was asked.
    """

    def __init__(self, exam: Exam):
        self.exam = exam
        self.outcomes: dict[tuple[str, Units, Asked], Outcome] = {}
        self.rejected: Collection[Units] = ()  # by a report, whatever the search's sequences say
        self.drawn = exam.joint
        self.last, self.sure = LAST, SURE

    @property
    def asked(self) -> Asked:
        """What is asked of every set now."""
        fair = FAIR if self.sure == SURE else SURE
        return Asked(self.exam.threshold, self.exam.accuracy, ACCEPTS, self.sure, self.sure, fair, self.far)

    def stages(self) -> Iterator[tuple[Evaluator, bool]]:
        """The sequences that every stage adds, drawn when first asked for; and whether they are the last.

        The last stage is that after which whoever owns the data has no more.
        """
        for i, (before, seen) in enumerate(itertools.pairwise((0, *STAGES))):
            if before == self.last:
                break
            if i == len(self.drawn):
                stage = self.exam.evaluator(f"joint {i}", seen - before)
                in_two = i == 0 and len(stage.batch) > FEW  # the first step of which rejects most sets
                self.drawn.append([stage.part(slice(0, FEW)), stage.part(slice(FEW, None))] if in_two else [stage])
            if i + 1 == len(self.drawn) and not self.exam.task.has_more_to_search:
                self.last = seen
            *steps, end = self.drawn[i]
            yield from ((step, False) for step in steps)
            yield end, seen == self.last

    def look_closer(self) -> bool:
        """Draw more sequences for the sets that are undecided, and ask them anew; whether there are any, and more."""
        if not self.undecided or self.last == STAGES[-1] or not self.exam.task.has_more_to_search:
            return False
        self.last = min(CLOSER * self.last, STAGES[-1])
        self.outcomes = {about: outcome for about, outcome in self.outcomes.items() if not outcome.is_open}
        return True

    def reject(self, rejected: Collection[Units]) -> None:
        """Ask all anew, and be surer before anything is accepted on few sequences; what a report rejected stays so.

        Of many sets that are tried on the same few sequences the luckiest pass.
        """
        self.last, self.sure = max(self.last, CLOSER * LAST), SURER
        self.rejected, self.outcomes = {*self.rejected, *rejected}, {}

    @property
    def sequences(self) -> int:
        """Sequences that were run, all changes together."""
        return round(sum(e.forwards * len(e.batch) for steps in self.drawn for e in steps))

    def ask(self, test: str, sets: Iterable[Units]) -> list[Outcome]:
        """What becomes of each set in one of the exam's tests."""
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
        """Sets that were rejected for want of sequences, not by them."""
        return {units for (_, units, _), outcome in self.outcomes.items() if outcome.is_open}

    def __call__(self, units: Iterable[Unit]) -> bool:
        """Whether one set suffices."""
        return self.all_of([frozenset(units)])[0]

    def all_of(self, sets: Sequence[Units]) -> list[bool]:
        """Which of some sets suffice: live with their rows whole, live as they are, at averages, and by hand."""
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
        """Those of some sets that suffice and hold none that is known to."""
        left = [units for units in dict.fromkeys(sets) if not any(one <= units for one in known)]
        return list(itertools.compress(left, self.all_of(left)))

    @property
    def far(self) -> float:
        """The loss that is hopeless in both of two sequences; of losses that may be negative, none is."""
        bounded = self.exam.task.floor >= 0 and self.exam.threshold > 0
        return FAR * self.exam.threshold if bounded else math.inf

    def note(self, test: str, found: Sequence[tuple[Units, Outcome]]) -> None:
        """Write what became of some sets into the proof log; of the many that are far away only the number."""
        told = [(units, outcome) for units, outcome in found if outcome.passed or outcome.loss.n > STAGES[0]]
        for units, outcome in told:
            self.exam.write("4 joint", names(units), test, outcome.loss, said(outcome.passed))
        if far := len(found) - len(told):
            self.exam.write("4 joint", f"{far} sets", test, None, "rejected", n=STAGES[0])

    # Minimal sets --------------------------------------------------------------------------------------------

    def minimal_sets(self, units: Collection[Unit]) -> list[Units]:
        """All minimal sufficient sets among a few units, whatever the order in which they undo each other."""
        ordered = sorted(units, key=str)
        found: list[Units] = []
        for size in range(len(ordered) + 1):
            found += self.new_among(map(frozenset, itertools.combinations(ordered, size)), found)
            if len(found) >= MANY:
                break
        return found

    def minimised(self, units: Units) -> tuple[list[Units], bool]:
        """The minimal subsets of a sufficient set, and whether these are all of them.

        Where the sequences do not decide on some part of a set, more are drawn; what is open in the end counts as
        rejected, and is noted (`undecided`).
        """
        found, all_ = self.parts(units)
        while self.open_parts(found) and self.look_closer():
            found, all_ = self.parts(units)
        return found, all_

    def open_parts(self, sets: Iterable[Units]) -> list[Units]:
        """Parts of some sets that are not decided on: of their units, or of their rows."""
        every = [part for units in sets for part in (units, frozenset(map(row_of, units)))]
        return [one for one in self.undecided if any(one < units for units in every)]

    def parts(self, units: Units) -> tuple[list[Units], bool]:
        """Minimal sets in a sufficient one: they fail without any part, or, over `EXHAUSTIVE`, any `REMOVALS`.

        And whether these are all: of a larger set from which something can be left out, one smaller circuit is found.
        """
        all_ = True
        while len(units) > EXHAUSTIVE:
            effect = lambda unit: (-self.exam.effects.get(row_of(unit), 0.0), self.exam.by_strength(unit))  # noqa: E731
            fewer: Units | None = minimal(sorted(units, key=effect), self)
            if fewer == units:
                fewer = self.without_some(units)
            if fewer is None:
                return [units], all_
            units, all_ = fewer, False
        found = self.minimal_sets(units)
        return smallest_first(self.exam, found) or [units], all_ and len(found) < MANY

    def without_some(self, units: Units) -> Units | None:
        """The set without a few units, if it still suffices."""
        for size in range(1, REMOVALS + 1):
            sets = (units - set(removed) for removed in itertools.combinations(sorted(units, key=str), size))
            if passing := self.new_among(sets, ()):
                return passing[0]
        return None


def smallest_first(exam: Exam, sets: Iterable[Units]) -> list[Units]:
    """Sets without any that contain another, or name paths of rows that another has whole; of few units first.

    Then those most attended to. Where a whole row does, whatever it attends to, no path of it is what is needed.
    """

    def attended(units: Units) -> float:
        return round(min((exam.data.strengths.get(path, 0.0) for path in paths_of(units)), default=0), 1)

    def is_vaguer(one: Units, other: Units) -> bool:
        return one != other and {*paths_of(one)} < other and {*map(row_of, one)} == {*map(row_of, other)}

    found = list(dict.fromkeys(sets))
    least = [chosen for chosen in found if not any(other < chosen or is_vaguer(other, chosen) for other in found)]
    return sorted(least, key=lambda chosen: (len(chosen), -attended(chosen), names(chosen)))
