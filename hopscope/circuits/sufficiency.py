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
from functools import cached_property

from hopscope.circuits.evaluator import Change, Evaluator
from hopscope.circuits.every_set import EverySet
from hopscope.circuits.exam import Exam, Units, names, said
from hopscope.circuits.search import minimal
from hopscope.circuits.sequential import FEW, SURE, Asked, decide
from hopscope.circuits.units import Row, Unit, row_of
from hopscope.problem.paths import Path

STAGES = tuple(2**i for i in range(2, 15))  # sequences in all, after which sets are decided: 4 to 16,384 (ours)
LAST = 1024  # but for a closer look, where nothing passes, or what is undecided is smaller than what does
CLOSER = 4  # times as many sequences are seen then
FAR = 8.0  # times the threshold: a set that loses so much in each of the first few is rejected (ours)
ACCEPTS = 128  # from so many on: what fails in one of twenty is missed by one set in seven hundred
FAIR = 1.96  # standard errors below the threshold, to be accepted in the end
SURER = 5.0  # in place of SURE, to be accepted before, once a report has rejected what was; in the end SURE is asked
EXHAUSTIVE = 12  # paths: of circuits up to this size all subsets are tried
REMOVALS = 3  # of larger ones, all removals of up to so many


class Sufficiency:
    """The joint test of sets of units. What depends on their rows alone is measured once."""

    def __init__(self, exam: Exam):
        self.exam = exam
        self.alive: dict[frozenset[Row], bool] = {}
        self.known: dict[Units, bool] = {}
        self.undecided: set[frozenset[Unit]] = set()  # rejected for want of sequences, not by them
        self.drawn = exam.joint
        self.last, self.sure = LAST, SURE

    def stages(self) -> Iterator[tuple[Evaluator, bool]]:
        """The sequences that every stage adds, drawn when first asked for; and whether they are the last.

        The last stage is that after which whoever owns the data has no more.
        """
        for i, (before, seen) in enumerate(itertools.pairwise((0, *STAGES))):
            if before == self.last:
                break
            if i == len(self.drawn):
                self.drawn.append(self.exam.evaluator(f"joint {i}", seen - before))
            if i + 1 == len(self.drawn) and not self.exam.task.has_more_to_search:
                self.last = seen
            stage = self.drawn[i]
            if i == 0 and len(stage.batch) > FEW:  # in two steps, the first of which rejects most sets
                yield self.first, False
                stage = self.rest
            yield stage, seen == self.last

    @cached_property
    def first(self) -> Evaluator:
        """The first few sequences, on which most sets are rejected."""
        return self.drawn[0].part(slice(0, FEW))

    @cached_property
    def rest(self) -> Evaluator:
        """The others of the first stage."""
        return self.drawn[0].part(slice(FEW, None))

    def look_closer(self) -> bool:
        """Draw more sequences for the sets that are undecided, and ask them anew; whether there are any, and more."""
        if not self.undecided or self.last == STAGES[-1] or not self.exam.task.has_more_to_search:
            return False
        self.last = min(CLOSER * self.last, STAGES[-1])
        open_ = self.undecided
        self.alive = {rows: passed for rows, passed in self.alive.items() if rows not in open_}
        self.known = {u: passed for u, passed in self.known.items() if not open_ & {u, frozenset(map(row_of, u))}}
        self.undecided = set()
        return True

    def doubt(self, rejected: Iterable[Units]) -> None:
        """Ask all anew, and be surer before anything is accepted on few sequences; what a report rejected stays so.

        Of many sets that are tried on the same few sequences the luckiest pass.
        """
        self.last, self.sure = max(self.last, CLOSER * LAST), SURER
        self.known, self.alive, self.undecided = dict.fromkeys(rejected, False), {}, set()

    @property
    def sequences(self) -> int:
        """Sequences that were run, all changes together."""
        return round(sum(e.forwards * len(e.batch) for e in self.drawn))

    def __call__(self, units: Iterable[Unit]) -> bool:
        """Whether one set suffices."""
        return self.all_of([frozenset(units)])[0]

    def all_of(self, sets: Sequence[Units]) -> list[bool]:
        """Which of some sets suffice: live with their rows whole, live as they are, at averages, and by hand."""
        unknown = [units for units in dict.fromkeys(sets) if units not in self.known]
        self.known |= dict.fromkeys(unknown, False)
        whole = self.whole([frozenset(map(row_of, units)) for units in unknown])
        left = [units for units, passed in zip(unknown, whole, strict=True) if passed]
        for words, changed in {**self.exam.ablations, "all by hand": self.exam.by_hand}.items():
            passing = self.decide([changed(units) for units in left], left, words)
            left = [units for units, passed in zip(left, passing, strict=True) if passed]
        self.known |= dict.fromkeys(left, True)
        return [self.known[units] for units in sets]

    def by_hand(self, units: Units) -> bool:
        """Whether one set suffices by hand, whatever becomes of it live."""
        return self.decide([self.exam.by_hand(units)], [units], "all by hand")[0]

    def whole(self, groups: Sequence[frozenset[Row]]) -> list[bool]:
        """Which sets of rows suffice live."""
        new = [rows for rows in dict.fromkeys(groups) if rows not in self.alive]
        found = self.decide([self.exam.rows(rows) for rows in new], new, "rows live, all else null")
        self.alive |= dict(zip(new, found, strict=True))
        return [self.alive[rows] for rows in groups]

    def near_among(self, rows: Sequence[Row], size: int) -> list[frozenset[Row]]:
        """Every set of up to so many of some rows that is not hopeless live; of few rows first."""
        every = self.every_set(rows, size)
        groups = every.sets()
        if not every.possible:
            return groups
        near = set(every.below(self.far))
        far = [group for group in groups if group not in near and group not in self.alive]
        self.alive |= dict.fromkeys(far, False)
        self.tell_number(len(far), "rows live, all else null", FEW)
        return [group for group in groups if group in near]

    @property
    def far(self) -> float:
        """The loss that is hopeless in both of two sequences; of losses that may be negative, none is."""
        bounded = self.exam.task.floor >= 0 and self.exam.threshold > 0
        return FAR * self.exam.threshold if bounded else math.inf

    def every_set(self, rows: Sequence[Row], size: int) -> EverySet:
        """All sets of some rows, on the first sequences."""
        first, _ = next(self.stages())
        return EverySet(first, rows, size, self.exam.settings.null, self.exam.identity)

    def decide(self, changes: Sequence[Change], about: Sequence[Collection[Unit]], words: str) -> list[bool]:
        """Whether each change keeps the loss under the threshold."""
        exam = self.exam
        fair = FAIR if self.sure == SURE else SURE
        asked = Asked(exam.threshold, exam.accuracy, ACCEPTS, self.sure, self.sure, fair, self.far)
        found = decide(changes, self.stages(), asked)
        far = 0  # of the many that are far away only the number is told
        for units, outcome in zip(about, found, strict=True):
            if not outcome.passed and outcome.loss.n <= STAGES[0]:
                far += 1
            else:
                exam.write("4 joint", names(units), words, outcome.loss, said(outcome.passed))
            is_open = not outcome.passed and not outcome.clear
            (self.undecided.add if is_open else self.undecided.discard)(frozenset(units))
        self.tell_number(far, words, STAGES[0])
        return [outcome.passed for outcome in found]

    def tell_number(self, sets: int, words: str, n: int) -> None:
        """Note how many sets were rejected, on so many sequences or fewer."""
        if sets:
            self.exam.write("4 joint", f"{sets} sets", words, None, "rejected", n=n)

    # Minimal sets --------------------------------------------------------------------------------------------

    def minimal_sets(self, units: Collection[Unit], limit: int = 64) -> list[Units]:
        """All minimal sufficient sets among a few units, whatever the order in which they undo each other."""
        ordered = sorted(units, key=str)
        rows = sorted(set(map(row_of, units)))
        self.near_among(rows, len(rows))  # most sets are rejected here, in one pass
        found: list[Units] = []
        for size in range(len(ordered) + 1):
            sets = [frozenset(chosen) for chosen in itertools.combinations(ordered, size)]
            sets = [chosen for chosen in sets if not any(known <= chosen for known in found)]
            found += [chosen for chosen, passed in zip(sets, self.all_of(sets), strict=True) if passed]
            if len(found) >= limit:
                break
        return found

    def minimised(self, units: Units) -> tuple[list[Units], bool]:
        """Minimal sets in a sufficient one, and whether these are all; undecided is not rejected.

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
        return smallest_first(self.exam, self.minimal_sets(units)) or [units], all_

    def without_some(self, units: Units) -> Units | None:
        """The set without a few units, if it still suffices."""
        for size in range(1, REMOVALS + 1):
            sets = [units - set(removed) for removed in itertools.combinations(sorted(units, key=str), size)]
            passing = [chosen for chosen, passed in zip(sets, self.all_of(sets), strict=True) if passed]
            if passing:
                return passing[0]
        return None


def smallest_first(exam: Exam, sets: Iterable[Units]) -> list[Units]:
    """Sets without any that contain another, or name paths of rows that another has whole; of few units first.

    Then those most attended to. Where a whole row does, whatever it attends to, no path of it is what is needed.
    """

    def attended(units: Units) -> float:
        return round(
            min((exam.data.strengths.get(unit, 0.0) for unit in units if isinstance(unit, Path)), default=0), 1
        )

    def is_vaguer(one: Units, other: Units) -> bool:
        paths = {unit for unit in one if isinstance(unit, Path)}
        return one != other and paths < other and {*map(row_of, one)} == {*map(row_of, other)}

    found = list(dict.fromkeys(sets))
    least = [chosen for chosen in found if not any(other < chosen or is_vaguer(other, chosen) for other in found)]
    return sorted(least, key=lambda chosen: (len(chosen), -attended(chosen), names(chosen)))
